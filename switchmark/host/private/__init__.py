"""Namespaces of the bench's own: users, mounts, network, processes, IPC and host name.

An ordinary user may make network namespaces and devices only in a user namespace that the user
made, so the bench starts itself again in one. The kernel removes everything in these namespaces
when their last process ends, however it ends.

Three processes take part, forked from each other before most of the bench is loaded:

- the *supervisor* (`supervisor.py`), the process that the user started. It stays outside, passes
  signals on and ends as the bench ends;
- the *first process* (`first.py`), process 1 of the new process namespace. It makes the other
  namespaces and the mounts (`folders.py`), and collects orphans. It ends when the supervisor or
  the bench ends, and the kernel then kills everything else in the namespace;
- the bench, which goes on from where it called `start_again`.
"""

from __future__ import annotations
