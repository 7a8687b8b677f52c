"""A pool: several testbeds measure the blocks of one campaign.

A block is one repetition of all contenders at one test point. It is measured by one testbed as a
whole. Each part of a pool has one task:

- PostgreSQL stores campaigns, blocks, leases and the index of the records. It alone decides which
  testbed may store results of a block (`leases`). A lease has a fencing token: an agent whose block
  another testbed took over can neither deploy a trial nor store a record.
- Dask schedules. `scheduler` submits each open block as a task. Dask keeps the queue, places a task
  on a testbed by abstract resources, runs it again when a worker is lost or a task fails (retries),
  moves waiting tasks to idle testbeds, cancels tasks, and shows all this in its dashboard.
- `agent_loop` is the Dask worker of a testbed; `agent` claims the lease of the block that Dask
  gives it, checks the testbed, measures and stores.
- `client` submits a campaign to PostgreSQL and follows it there.

Effects of an end or a restart of each part:

- An agent ends or its host stops. Dask notices a closed connection at once and places its tasks on
  other testbeds. A block that it measured is open again when an agent of the same testbed starts,
  or when its lease ends; the scheduler then submits it again. If an agent is silent (stopped, or
  its network is gone) until its lease ends, the scheduler removes its worker. Records that were
  stored stay; the same testbed continues with the rest of the block, another testbed repeats the
  block.
- The scheduler ends. Agents measure on, store and end their blocks in PostgreSQL, so no finished
  trial is lost. Agents connect again by themselves. A new scheduler has an empty queue and submits
  the open blocks from PostgreSQL; blocks whose lease is valid are not submitted.
- A client ends. Nothing else changes: the campaign is in PostgreSQL. The same command follows it.
- PostgreSQL ends or restarts. Agents keep their record and try again until it answers. The
  scheduler keeps its queue, and clients wait. Leases that ended meanwhile are lost: those blocks
  are open again.
"""
