"""The protocols of native code under all schedules, with more threads and rounds than the tests of the suite.

A unit is one exploration: the checker runs the native functions in every order of their shared accesses. The figures
are the states of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.cpu.llvm import test_infeed_schedules as infeeds
from tests.cpu.llvm import test_queue_schedules as queues
from tests.cpu.llvm import test_rendezvous_schedules as rendezvous
from tests.cpu.llvm import test_wait_schedules as waits
from tests.runtime.engine.core import test_fork_schedules as forks
from tests.runtime.engine.core import test_launch_schedules as launches
from tests.stress.harness import Amount, Run, Stress
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.memory import ScheduleError

_MAX_STATES = 20_000_000


def _launches(*threads: object) -> Exploration:
    return explore(
        launches.prepare,
        threads,  # type: ignore[arg-type]
        launches.the_storages_are_released,
        also=[launches.add_one],
        allows_leaks=True,
        max_states=_MAX_STATES,
    )


EXPLORATIONS: Mapping[str, Callable[[], Exploration]] = {
    "two members, two rendezvous": lambda: rendezvous.explored(rendezvous.member(0, 2, 2), rendezvous.member(1, 2, 2)),
    "a sender and a receiver, three messages": lambda: queues.explored(queues.sender(3), queues.receiver(2, 1, 3)),
    "a sender, a receiver, the end of the run": lambda: queues.explored(
        queues.sender(1), queues.receiver(1, 2), queues.end_run
    ),
    "an infeed of two values, and its end": lambda: infeeds.explored(infeeds.device, infeeds.host(2)),
    "an infeed, its end, and that of the run": lambda: infeeds.explored(
        infeeds.device, infeeds.host(1), infeeds.end_run
    ),
    "two devices that wait for each other, and the watchdog": lambda: waits.explored(
        waits.no_spins, waits.first_device, waits.second_device, waits.watchdog(), max_states=_MAX_STATES
    ),
    "a launch, deletion of its result, a fork": lambda: forks.explored(
        forks.prepare_call, forks.run_one, forks.delete_result, forks.forking()
    ),
    "a launch, its stream, deletion of the argument": lambda: _launches(
        launches.call_and_drop_and_delete, launches.run_one
    ),
    "a launch that is canceled": lambda: _launches(launches.call_cancel_and_read, launches.run_one),
    "two members, three rendezvous": lambda: rendezvous.explored(
        rendezvous.member(0, 2, 3), rendezvous.member(1, 2, 3)
    ),
    "two members, and the end of the run": lambda: rendezvous.explored(
        rendezvous.member(0, 2), rendezvous.member(1, 2), rendezvous.end_run
    ),
    "three members": lambda: rendezvous.explored(*(rendezvous.member(rank, 3) for rank in range(3))),
}
"""The explorations, the short ones first."""


def _run(run: Run) -> None:
    for name, exploration in list(EXPLORATIONS.items())[: run.amount.count]:
        try:
            explored = exploration()
            run.figures[name] = f"{explored.states:,} states, {explored.seconds:.0f} s"
        except ScheduleError as error:
            run.fault(f"{name}: {error}")
        run.done += 1


STRESS = Stress(
    "protocols of native code under all schedules: no race, no deadlock, no leak",
    Amount(count=1),
    Amount(count=len(EXPLORATIONS)),
    _run,
)
