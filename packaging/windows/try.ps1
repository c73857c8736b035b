# NEVER RUN: nobody has tried this file on Windows yet. Read it before you run it, and tell us what happened.
#
# Sends what rows 1 to 6 of docs/how-to/try-windows.md need, from Windows to OpenMSMQ on Linux.
param([Parameter(Mandatory)][string]$Linux)
$ErrorActionPreference = "Stop"
Add-Type -AssemblyName System.Messaging
function Send([string]$name, [string]$label, [bool]$recoverable, [bool]$transactional, [int]$count = 1, [string]$admin = "") {
    $queue = New-Object System.Messaging.MessageQueue "FormatName:DIRECT=TCP:$Linux\private`$\$name"
    for ($number = 1; $number -le $count; $number++) {
        $message = New-Object System.Messaging.Message "body $number"
        $message.Label = "$label $number"
        $message.Recoverable = $recoverable
        $message.UseDeadLetterQueue = $true
        if ($admin) {
            $message.AdministrationQueue = New-Object System.Messaging.MessageQueue ".\private`$\$admin"
            $message.AcknowledgeType = [System.Messaging.AcknowledgeTypes]"FullReachQueue, FullReceive"
        }
        if ($transactional) { $queue.Send($message, [System.Messaging.MessageQueueTransactionType]::Single) }
        else { $queue.Send($message) }
    }
    "$label`: sent $count to $name"
}
Send "try" "row 1" $false $false
Send "try" "row 2" $true $false 100
Send "try-tx" "row 3" $true $true 100
Send "try" "row 4" $true $true
Send "nobody" "row 5" $true $true
Send "try" "row 6" $true $false 1 "try"
"Now on Linux: msmq receive '.\private`$\try' --all and '.\private`$\try-tx' --all; here: dead letters and outgoing queues."
