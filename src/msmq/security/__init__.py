"""Identities, rights and cryptography. No state, no I/O.

===============  ==========================================================================
module           what it answers
===============  ==========================================================================
`sid`            who is meant
`descriptor`     what an object's security descriptor says, in bytes
`sddl`           the same in text
`access`         may this caller do that to this object
`providers`      which cryptographic provider a message names
`keys`           RSA keys from and to the blobs of the wire
`signing`        is a message from whom it says, and unchanged
`encryption`     what an encrypted body says
`legacy`         the algorithms for both that no library has any more
`rejections`     the reasons to turn a message away, with their acknowledgment classes
===============  ==========================================================================
"""
