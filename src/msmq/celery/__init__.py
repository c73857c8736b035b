"""A broker for Celery and kombu: importing this package registers ``msmq://`` as an address (the extra ``celery``)."""

from msmq.celery.transport import Transport

__all__ = ["Transport"]
