package seal

// What the key of 32 bytes 0x01 gives. The first two were computed with Python's hmac from RFC 5869, the
// third is what Seal gave for "plain" at "place".
const (
	goldenKeyID   = "023ab589"
	goldenDerived = "912f61c8fcfba1f5937654505ca5f132dcb541c26e84aa08e496c068864fa5e8"
	goldenSealed  = "023ab589cd1111a76faea21f33596e1780b1d4b981cb64125234724591439126a709f504d44a0558cfe2c9a98750d3e083"
)
