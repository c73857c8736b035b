"""Identities, rights and cryptography. No state, no I/O.

===============  ==========================================================================
module           what it holds
===============  ==========================================================================
`sid`            security identifiers of users, groups and computers
`descriptor`     security descriptors in binary form
`sddl`           security descriptors as text
`access`         the access check: may this caller do that to this object
`providers`      the cryptographic providers that messages name
`keys`           RSA keys from and to the blobs of the wire
`signatures`     signing messages and verifying signatures
`encryption`     encrypting and decrypting bodies
`legacy`         the algorithms for both that libraries have dropped
`policy`         the algorithms and limits that an administrator allows
`caches`         keys and certificates that are kept for a while
`outbound`       signing and encrypting messages that leave
`inbound`        decrypting and verifying messages that arrive
`rejections`     the reasons to reject a message, with their acknowledgment classes
===============  ==========================================================================
"""
