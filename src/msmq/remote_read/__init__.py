"""MS-MQRR: reading queues of other hosts, server and client, on `msmq.rpc`.

==============  ========================================================================================
module          what it holds
==============  ========================================================================================
`interface`     how the methods look on the wire
`actions`       what a read may ask for
`service`       the server: one method for each operation
`receive`       reads that are under way, and how they wait
`handles`       open queues of clients and their pending requests
`sections`      a stored message as it is given to a reader
`enlistment`    transactions of others, and the coordinator they need
`policy`        how well callers must be authenticated
`door`          the ports it is served on
`failures`      the client: how calls fail
`session`       the client: connecting and opening
`remote_queue`  the client: an open queue and all sequences of calls
`reader`        the client: streams of messages, many calls at once
==============  ========================================================================================
"""
