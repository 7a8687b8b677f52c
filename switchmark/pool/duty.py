"""An agent on duty: connected to the pool, working when it is told to, until it is ended."""

from __future__ import annotations

from collections.abc import Callable

from distributed.security import Security

from switchmark.host.signals import signals_raise
from switchmark.pool.agent import Agent, Replaced
from switchmark.pool.worker import WorkerThread, only_main_thread

_TURN_S = 1.0


def on_duty(agent: Agent, contact: str, security: Security, say: Callable[[str], None]) -> None:
    """Work until SIGTERM, SIGHUP or Ctrl-C, which end a trial that runs and clean up after it.

    Raises `Replaced` when another agent has taken the testbed over."""
    only_main_thread()
    with signals_raise(), WorkerThread(contact, security, agent.member.testbed, say) as worker:
        while True:
            word = worker.next_word(_TURN_S)
            if word is None:
                agent.speak()
                continue
            try:
                with worker.silence():
                    news = agent.turn()
            except Replaced as error:
                word.set_result(str(error))
                raise
            except BaseException:
                word.set_result("the agent has ended")
                raise
            word.set_result(news)
