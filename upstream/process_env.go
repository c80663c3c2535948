package upstream

// inherited are the variables of the gateway's own environment that every
// process gets, where they are set: what programs need to find each other, their
// files and their language. Nothing else is passed on, above all no secret of the
// gateway's.
var inherited = [...]string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ",
	"LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES",
	// The same on Windows.
	"APPDATA", "LOCALAPPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
	"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR",
}

// environment gives the whole environment of a process. Its own variables come
// last, and the last one of a name holds. lookup is os.LookupEnv or stands for it.
func (p *Process) environment(lookup func(string) (string, bool)) ([]string, error) {
	own, err := p.environ(lookup)
	if err != nil {
		return nil, err
	}
	list := make([]string, 0, len(inherited)+len(own))
	for _, name := range inherited {
		if value, ok := lookup(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return append(list, own...), nil
}
