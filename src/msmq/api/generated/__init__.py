"""Made by ``make proto`` from ``msmq.proto``; do not edit."""
