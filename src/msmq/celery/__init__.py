"""A broker for Celery and kombu: importing this makes ``msmq://`` an address of one (the extra ``celery``)."""

from msmq.celery.transport import Transport

__all__ = ["Transport"]
