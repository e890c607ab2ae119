package notice

// SealedMail is what a mail's body is sealed for.
func SealedMail(mailID string) []byte { return sealedFor(mailID) }
