"""MS-MQMQ and chapter 2 of MS-MQQB: bytes to values and back. No state, no I/O, and one error for bad bytes.

================================== ==============================================================================
``declare``                        how a structure is declared
``headers``, ``optional_headers``  the headers of packets; ``multi_queue`` and ``srmp`` hold the rarer ones
``message``                        :class:`UserMessage`, a whole message kept as its bytes
``packets``, ``framing``           what opens and acknowledges a session; packets out of a stream
``trailers``, ``sections``         what remote read adds to a message and how it cuts it
``names``, ``queue_format``        queue names as text and in their binary forms
``ndr``, ``variant``               marshalled values; ``properties`` says which ones exist and what they may hold
``keys``, ``certificates``         key and certificate blobs; ``algorithms`` and ``access_masks`` hold their numbers
``signature``, ``delivery``        what a signature covers, and what a packet decides about its own fate
``describe``, ``explain``          a packet as a tree of named fields, and in one sentence
================================== ==============================================================================
"""
