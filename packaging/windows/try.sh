#!/bin/sh
# Sends what rows 7 to 12 of docs/how-to/try-windows.md need, from OpenMSMQ here to a Windows host.
set -eu
windows=${1:?usage: try.sh ADDRESS-OF-WINDOWS}
to() { printf 'DIRECT=TCP:%s\\private$\\%s' "$windows" "$1"; }
msmq send "$(to try)" --body 'row 7' --label 'row 7' --express
msmq send "$(to try)" --body 'row 8' --label 'row 8' --recoverable --count 100
msmq send "$(to try-tx)" --body 'row 9' --label 'row 9' --transactional --count 100
msmq send "$(to nobody)" --body 'row 10' --label 'row 10' --transactional
for size in 1 65536 4190208; do
    head -c "$size" /dev/zero | tr '\0' x | msmq send "$(to try)" - --label "row 12, $size bytes" --recoverable
done
msmq outgoing list
echo "Now on Windows: look into the queues try and try-tx. Here: msmq outgoing list, msmq dead-letter list."
