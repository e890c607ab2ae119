package account

import "strings"

// The parts of user agents that tell browsers and systems apart, the particular before what it pretends to be.
var (
	browserNames = [][2]string{{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser", "Samsung Internet"}, {"Firefox", "Firefox"}, {"FxiOS", "Firefox"},
		{"CriOS", "Chrome"}, {"Chrome", "Chrome"}, {"Safari", "Safari"}}
	systemNames = [][2]string{{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Mac OS", "a Mac"}, {"Windows", "Windows"},
		{"Linux", "Linux"}}
)

// Browser names a browser and its system by its user agent, as far as people tell them apart: "Firefox on Linux".
func Browser(agent string) string {
	program, system := called(agent, browserNames), called(agent, systemNames)
	switch {
	case program == "" && system == "":
		return "A browser"
	case program == "":
		return "A browser on " + system
	case system == "":
		return program
	}
	return program + " on " + system
}

func called(agent string, names [][2]string) string {
	for _, name := range names {
		if strings.Contains(agent, name[0]) {
			return name[1]
		}
	}
	return ""
}
