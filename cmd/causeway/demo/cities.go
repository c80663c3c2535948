package demo

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
)

// city is a place that the sample servers know.
type city struct {
	name      string
	country   string
	airport   string // IATA code; empty for a place without one
	lat, lon  float64
	otherName string // another name it is found by
}

// cities gives all places, sorted by name.
func cities() []city {
	return []city{
		{"Amsterdam", "Netherlands", "AMS", 52.37, 4.90, ""},
		{"Barbados", "Barbados", "BGI", 13.10, -59.61, "Bridgetown"},
		{"Barcelona", "Spain", "BCN", 41.39, 2.17, ""},
		{"Berlin", "Germany", "BER", 52.52, 13.41, ""},
		{"Cape Town", "South Africa", "CPT", -33.92, 18.42, ""},
		{"Lisbon", "Portugal", "LIS", 38.72, -9.14, "Lisboa"},
		{"London", "United Kingdom", "LHR", 51.51, -0.13, "LON"},
		{"Madrid", "Spain", "MAD", 40.42, -3.70, ""},
		{"Mexico City", "Mexico", "MEX", 19.43, -99.13, "CDMX"},
		{"New York", "United States", "JFK", 40.71, -74.01, "NYC"},
		{"Paris", "France", "CDG", 48.86, 2.35, "PAR"},
		{"Park City", "United States", "", 40.65, -111.50, ""},
		{"Reykjavík", "Iceland", "KEF", 64.15, -21.94, "Reykjavik"},
		{"Rome", "Italy", "FCO", 41.90, 12.50, "Roma"},
		{"San Francisco", "United States", "SFO", 37.77, -122.42, "SF"},
		{"São Paulo", "Brazil", "GRU", -23.55, -46.63, "Sao Paulo"},
		{"Singapore", "Singapore", "SIN", 1.35, 103.82, ""},
		{"Sydney", "Australia", "SYD", -33.87, 151.21, ""},
		{"Tokyo", "Japan", "HND", 35.68, 139.69, "東京"},
		{"Zürich", "Switzerland", "ZRH", 47.37, 8.54, "Zurich"},
	}
}

// cityNames gives the names of all places, or of those with an airport.
func cityNames(withAirport bool) []string {
	var names []string
	for _, c := range cities() {
		if !withAirport || c.airport != "" {
			names = append(names, c.name)
		}
	}
	return names
}

// findCity finds a place by its name, its other name or its airport, without
// regard to letter case. The error lists what there is.
func findCity(name string, withAirport bool) (city, error) {
	all := cities()
	i := slices.IndexFunc(all, func(c city) bool {
		return strings.EqualFold(name, c.name) ||
			c.airport != "" && strings.EqualFold(name, c.airport) ||
			c.otherName != "" && strings.EqualFold(name, c.otherName)
	})
	if i < 0 || withAirport && all[i].airport == "" {
		return city{}, fmt.Errorf("no city %q here; the known ones are %s", name, strings.Join(cityNames(withAirport), ", "))
	}
	return all[i], nil
}

// distance gives the length of the great circle between two places in
// kilometres.
func distance(a, b city) float64 {
	const radius, degree = 6371, math.Pi / 180
	lat1, lat2 := a.lat*degree, b.lat*degree
	h := math.Pow(math.Sin((lat2-lat1)/2), 2) +
		math.Cos(lat1)*math.Cos(lat2)*math.Pow(math.Sin((b.lon-a.lon)*degree/2), 2)
	return 2 * radius * math.Asin(math.Sqrt(h))
}

// pick gives a number below n that depends on the words only: what looks random
// in the samples is the same on every run.
func pick(n int, words ...string) int {
	h := fnv.New64a()
	h.Write([]byte(strings.Join(words, "\x00")))
	// The low bits of FNV follow the last byte closely; the high ones do not.
	return int(h.Sum64() >> 33 % uint64(n))
}
