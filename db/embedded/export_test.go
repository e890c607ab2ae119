package embedded

// BinDir is the folder of the programs that s runs.
func BinDir(s *Server) string { return s.binaries.dir }

// Places replaces where servers are looked for beside the PATH, and returns what it was.
func Places(with []string) []string {
	was := places
	places = with
	return was
}
