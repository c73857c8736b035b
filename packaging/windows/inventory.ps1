# NEVER RUN: nobody has tried this file on Windows yet. Read it before you run it, and tell us what happened.
#
# Lists the queues of this Windows host with their settings and rights, as JSON. It reads and changes nothing.
#   powershell -File inventory.ps1 | Out-File -Encoding utf8 inventory.json
Import-Module MSMQ
function Sid([string]$name) {
    try { (New-Object Security.Principal.NTAccount($name)).Translate([Security.Principal.SecurityIdentifier]).Value }
    catch { $name }
}
$queues = foreach ($queue in @(Get-MsmqQueue -QueueType Private) + @(Get-MsmqQueue -QueueType Public -ErrorAction SilentlyContinue)) {
    [ordered]@{
        path             = "$env:COMPUTERNAME\" + ($queue.QueueName -replace '^[^\\]*\\(?=private\$)', '')
        label            = $queue.Label
        transactional    = [bool]$queue.Transactional
        journal          = [bool]$queue.Journaling
        quota_kb         = [int64]$queue.MaximumQueueSize
        journal_quota_kb = [int64]$queue.MaximumJournalSize
        authenticate     = [bool]$queue.Authenticate
        privacy          = "$($queue.EncryptionRequired)"
        messages         = [int]$queue.MessageCount
        acl              = @(foreach ($entry in Get-MsmqQueueACL -InputObject $queue) {
            [ordered]@{
                who    = "$($entry.AccountName)"
                sid    = Sid "$($entry.AccountName)"
                rights = "$($entry.Right)"
                allow  = "$($entry.AccessType)" -ne "Deny"
            }
        })
    }
}
[ordered]@{
    computer = $env:COMPUTERNAME
    version  = [Environment]::OSVersion.Version.ToString()
    manager  = Get-MsmqQueueManager | Select-Object *
    queues   = @($queues)
} | ConvertTo-Json -Depth 6
