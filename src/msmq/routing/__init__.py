"""MS-MQBR: where a message goes next, from sites, links and servers. Plain values in, plain values out."""
