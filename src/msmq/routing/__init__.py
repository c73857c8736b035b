"""MS-MQBR: the next hop of a message, from sites, links and servers. Plain values in, plain values out."""
