"""Settings of Dask in a pool: patient with silence, quiet, and without anything that a testbed
would feel."""

from __future__ import annotations

import logging

import dask

# Agents are silent while frames flow, for as long as a block takes: silence is no death here.
_SETTINGS = {
    "distributed.scheduler.http.routes": [],  # (pages for anybody, without a certificate)
    "distributed.worker.http.routes": [],
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-ttl": None,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "1 minute",
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "1 hour",
}


def set_up_dask() -> None:
    """Set Dask up in this process."""
    dask.config.set(_SETTINGS)
    for name in ("distributed", "distributed.core", "distributed.worker", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
