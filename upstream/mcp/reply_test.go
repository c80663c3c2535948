package mcp

import (
	"errors"
	"strings"
	"testing"
)

func TestParseMessageErrors(t *testing.T) {
	tests := []struct{ name, in, naming string }{
		{"cut", `{"jsonrpc":"2.0","id":1,"result":{"content":[`, "JSON"},
		{"HTML", `<html>`, "JSON"},
		{"empty", ``, "JSON"},
		{"trailing data", `{"jsonrpc":"2.0","id":1,"result":{}}{}`, "JSON"},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}", "UTF-8"},
		{"too deep", `{"jsonrpc":"2.0","id":1,"result":{"a":[[[[[[[[[[]]]]]]]]]]}}`, "deeper"},
		{"batch", `[]`, "batch"},
		{"no jsonrpc", `{"id":1,"result":{}}`, "jsonrpc"},
		{"neither", `{"jsonrpc":"2.0","id":1}`, "neither"},
		{"both", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, "result and an error"},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, "method"},
		{"empty method", `{"jsonrpc":"2.0","method":""}`, "method"},
		{"method as number", `{"jsonrpc":"2.0","method":1}`, "method"},
		{"result null", `{"jsonrpc":"2.0","id":1,"result":null}`, "result"},
		{"result array", `{"jsonrpc":"2.0","id":1,"result":[]}`, "result"},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, "id"},
		{"result with id null", `{"jsonrpc":"2.0","id":null,"result":{}}`, "id"},
		{"id fraction", `{"jsonrpc":"2.0","id":1.0,"result":{}}`, "id"},
		{"request with id null", `{"jsonrpc":"2.0","id":null,"method":"a"}`, "id"},
		{"error null", `{"jsonrpc":"2.0","id":1,"error":null}`, "error"},
		{"error without code", `{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`, "code"},
		{"code as string", `{"jsonrpc":"2.0","id":1,"error":{"code":"1"}}`, "code"},
		{"code fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":1.0}}`, "code"},
		{"code too large", `{"jsonrpc":"2.0","id":1,"error":{"code":9223372036854775808}}`, "code"},
		{"params array", `{"jsonrpc":"2.0","method":"a","params":[]}`, "params"},
		{"response with params", `{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`, "params"},
		{"duplicate result", `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, `"result"`},
		{"duplicate tools", `{"jsonrpc":"2.0","id":1,"result":{"tools":[],"tools":[]}}`, `"tools"`},
		{"duplicate code", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2}}`, `"code"`},
		{"duplicate subscription id", `{"jsonrpc":"2.0","method":"a","params":{"_meta":{"` + MetaSubscriptionID + `":1,"` + MetaSubscriptionID + `":2}}}`, "subscriptionId"},
		{"task id with lone surrogate", `{"jsonrpc":"2.0","id":1,"result":{"taskId":"\ud800"}}`, `"taskId"`},
		{"uri with lone surrogate", `{"jsonrpc":"2.0","method":"a","params":{"uri":"\ud800"}}`, `"uri"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ParseMessage([]byte(tt.in), 10)
			if err == nil || m != nil {
				t.Fatalf("ParseMessage() = %v, %v, want an error", m, err)
			}
			if !strings.Contains(err.Error(), tt.naming) {
				t.Errorf("error = %v, want it to name %s", err, tt.naming)
			}
			var typed *Error
			if errors.As(err, &typed) {
				t.Error("error is one that is sent to clients")
			}
		})
	}
}

func TestItemsNamed(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"result":{"prompts":[1],"tools":[2]}}`)
	m, err := ParseMessage(raw, 10)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"prompts": "[1]", "tools": "[2]", "resources": ""} {
		if got := string(m.ItemsNamed(key).In(raw)); got != want {
			t.Errorf("ItemsNamed(%s) = %s, want %s", key, got, want)
		}
	}
}
