package account

// SealedSecondFactor is what a member's second factor is sealed for.
func SealedSecondFactor(memberID string) []byte { return sealedSecondFactor(memberID) }
