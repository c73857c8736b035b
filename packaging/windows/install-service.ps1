# NEVER RUN: nobody has tried this file on Windows yet. Read it before you run it, and tell us what happened.
#
# Installs the queue manager as a service of Windows. Python services need a wrapper that speaks to the service control
# manager; this uses NSSM (https://nssm.cc), which must be on the path. Stop Windows' own MSMQ first (Stop-Service MSMQ):
# both want TCP 1801.
param(
    [string]$Python = "C:\Program Files\Python313\python.exe",
    [string]$Data = "C:\ProgramData\OpenMSMQ",
    [string]$Config = "C:\ProgramData\OpenMSMQ\msmq.toml"
)
$ErrorActionPreference = "Stop"
New-Item -ItemType Directory -Force -Path $Data | Out-Null
& icacls $Data /inheritance:r /grant "SYSTEM:(OI)(CI)F" "Administrators:(OI)(CI)F" "NT SERVICE\OpenMSMQ:(OI)(CI)M" | Out-Null
& nssm install OpenMSMQ $Python "-m msmq serve --data `"$Data`" --config `"$Config`""
& nssm set OpenMSMQ ObjectName "NT SERVICE\OpenMSMQ"
& nssm set OpenMSMQ AppStopMethodConsole 90000
& nssm set OpenMSMQ AppStderr "$Data\msmq.log"
& nssm set OpenMSMQ Start SERVICE_AUTO_START
& nssm start OpenMSMQ
