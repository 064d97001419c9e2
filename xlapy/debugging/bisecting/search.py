"""The search for what makes a program wrong: a run of a pass, or the code generated behind all passes.

The passes run once, and every module they make is kept as text. The interpreter says what each of these computes; by
halving, a module is found that is right while the next one is wrong. If the last module is right, what is left is code
generation.

Owns: the order of the questions. Must not know: how a pass is narrowed down (`narrowing`), nor a kernel (`generation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xlapy import opcodes
from xlapy.base.errors import ExecutionError, InvalidArgumentError, UnsupportedError
from xlapy.debugging.bisecting.generation import KernelFault, find_kernel
from xlapy.debugging.bisecting.narrowing import Reduced, reduce_for_pass
from xlapy.debugging.bisecting.outcome import Fault, Kind, Laboratory, Place, Run, Way, difference
from xlapy.hlo.module import Module
from xlapy.opcodes.transfer import ChannelAttributes
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.text import parse_hlo

Value = Any
Say = Callable[[str], None]

_HOST = frozenset({opcodes.INFEED, opcodes.OUTFEED})
_TRANSFERS = frozenset({opcodes.SEND, opcodes.SEND_DONE, opcodes.RECV, opcodes.RECV_DONE})


@dataclass(frozen=True, slots=True)
class Settings:
    """What is bisected, and how.

    passes: those of a text as `parse_passes` reads it, "" for none; None for those of cpu and its code generation.
    only: the place of the one pass of them that runs. optimized: the program has cpu's passes behind it: nothing runs
    but code generation. against: whose result is right, `interpreter` or `xla`. loads: files or modules of Python to
    load first. seconds: that a pass or a run of the program may take. reducing: seconds for a smaller program.
    """

    passes: str | None = None
    only: str | None = None
    optimized: bool = False
    against: str = "interpreter"
    loads: tuple[str, ...] = ()
    seconds: float = 60.0
    reducing: float = 60.0

    @property
    def generates(self) -> bool:
        """Whether the program is to become machine code."""
        return self.optimized or (self.passes is None and self.only is None)


@dataclass(slots=True)
class Finding:
    """What came of it. runs, changes: of passes, as far as they went. fault: None if nothing is wrong."""

    runs: int = 0
    changes: int = 0
    fault: Fault | None = None
    place: Place | None = None
    """The run of a pass that is to blame; None if it is not a pass."""
    before: str = ""
    """The module before that pass, or that of which code is generated."""
    after: str | None = None
    first: list[str] = field(default_factory=list[str])
    """The first instruction whose value the pass changed: as it was, as it is, and how they differ."""
    kernel: KernelFault | None = None
    reduced: Reduced | None = None
    agrees_before_passes: bool = True
    """False: the interpreter differs from XLA on the program as it is given."""
    notes: list[str] = field(default_factory=list[str])


def bisect(
    module: Module, arguments: Sequence[Sequence[Any]], settings: Settings, say: Say = lambda _: None
) -> Finding:
    """Looks for what makes a verified program wrong for arguments, those of each device. `say` is told the progress.

    `ExecutionError` if there is no right result to compare with, `UnsupportedError` for programs that exchange data
    with the host, and for several devices against XLA.
    """
    _check(module, arguments, settings)
    shape = module.entry_computation.program_shape
    values = [check_arguments(shape, given) for given in arguments]
    replicas = max(1, len(arguments) // module.config.num_partitions)
    laboratory = Laboratory(shape, values, replicas, settings.loads, settings.seconds)
    try:
        return _Search(laboratory, settings, say).run(_text(module))
    finally:
        laboratory.worker.close()


def _check(module: Module, arguments: Sequence[Sequence[Any]], settings: Settings) -> None:
    if settings.against not in ("interpreter", "xla"):
        raise InvalidArgumentError(f"results are right on the interpreter or xla, not on {settings.against!r}")
    if settings.against == "xla" and len(arguments) > 1:
        raise UnsupportedError(f"{module.name} runs on {len(arguments)} devices; XLA runs programs on one")
    for instruction in module.instructions():
        attributes = instruction.attributes
        if instruction.op in _HOST or (isinstance(attributes, ChannelAttributes) and attributes.is_host_transfer):
            raise UnsupportedError(
                f"{instruction.name} ({instruction.op.name}) exchanges data with the host: such programs cannot be "
                "bisected, which runs them again and again"
            )


def _text(module: Module) -> str:
    return module.to_text(print_large_constants=True)


class _Search:
    def __init__(self, laboratory: Laboratory, settings: Settings, say: Say) -> None:
        self.laboratory = laboratory
        self.settings = settings
        self.say = say
        self.found = Finding()
        self.expected: list[Value] = []

    def run(self, text: str) -> Finding:
        if not self._know_the_truth(text):
            return self.found
        way = Way() if self.settings.optimized else self._passes(text)
        changed = [run for run in way.runs if run.text is not None]
        self.found.runs = len(way.runs) + (way.stopped is not None)
        self.found.changes = len(changed)
        self.found.notes += [_lie(run) for run in way.runs if run.misreported]
        texts = [text, *[run.text or "" for run in changed]]
        if not self._pass_that_changes(texts, [run.place for run in changed]) and way.stopped is not None:
            self._blame(way.stopped, way.fault, texts[-1], way.broken)
        if self.found.fault is None and self.settings.generates:
            self._generation(text, texts[-1])
            self._trace_refusal(texts, [run.place for run in changed])
        self._narrow_values()
        self._narrow()
        return self.found

    def _know_the_truth(self, text: str) -> bool:
        """Whether the program as it is given is right on the interpreter; sets what is right."""
        self.say("running the program on the interpreter")
        plain = self.laboratory.interpreted(text)
        if isinstance(plain, Fault) and self.settings.against == "interpreter":
            raise ExecutionError(f"the interpreter gives no result to compare with: {plain.message}")
        if self.settings.against == "interpreter":
            assert not isinstance(plain, Fault)
            self.expected = plain
            return True
        self.say("running the program on XLA")
        truth = self.laboratory.xla(text)
        if isinstance(truth, Fault):
            raise ExecutionError(f"XLA gives no result to compare with: {truth.message}")
        self.expected = truth
        self.found.fault = self._judged(plain)
        self.found.agrees_before_passes = self.found.fault is None
        return self.found.agrees_before_passes

    def _judged(self, actual: list[Value] | Fault) -> Fault | None:
        """Of the interpreter's results."""
        return difference(actual, self.expected, flush=self.settings.against == "xla")

    def _passes(self, text: str) -> Way:
        def told(place: Place) -> None:
            self.say(f"{place}")

        return self.laboratory.passes(text, self.settings.passes, self.settings.only, told)

    def _pass_that_changes(self, texts: Sequence[str], places: Sequence[Place]) -> bool:
        """Finds a pass behind which the program is wrong while it was right before; whether there is one."""
        if len(texts) == 1 or self._wrong(texts, len(texts) - 1) is None:
            return False
        right, wrong = 0, len(texts) - 1
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._wrong(texts, middle) is None:
                right = middle
            else:
                wrong = middle
        self._blame(places[right], self._wrong(texts, wrong), texts[right], texts[wrong])
        return True

    def _wrong(self, texts: Sequence[str], number: int) -> Fault | None:
        self.say(f"running the program as it is behind {number} of {len(texts) - 1} changes")
        return self._judged(self.laboratory.interpreted(texts[number]))

    def _narrow_values(self) -> None:
        """In a program on one device whose result is changed: where on the way to it."""
        found = self.found
        changes = found.fault is not None and found.fault.kind is Kind.CHANGES
        if changes and found.place is not None and found.after is not None and len(self.laboratory.values) == 1:
            self.say("looking for the first value that is another")
            found.first = self.laboratory.first_change(found.before, found.after)

    def _blame(self, place: Place, fault: Fault | None, before: str, after: str | None) -> None:
        self.found.place, self.found.fault = place, fault
        self.found.before, self.found.after = before, after

    # -- behind the passes

    def _generation(self, text: str, optimized: str) -> None:
        self.say("running the program on cpu")
        actual = self.laboratory.generated(optimized) if self.settings.optimized else self.laboratory.native(text)
        fault = difference(actual, self.expected, flush=True)
        if fault is None:
            return
        self.found.fault, self.found.before = fault, optimized
        if self.settings.optimized or fault.is_like(
            difference(self.laboratory.generated(optimized), self.expected, flush=True)
        ):
            self.found.kernel = self._kernel(optimized, fault)
        else:
            self.found.notes.append("read from its text, the module behind the passes does not show this")

        if fault.kind is Kind.CHANGES and (found := self.found.kernel) is not None and not found.alone:
            self._ignore_amplified_rounding(text)

    def _trace_refusal(self, texts: Sequence[str], places: Sequence[Place]) -> None:
        """Notes which pass made the instruction that the code generator refuses, which the message begins with."""
        fault = self.found.fault
        if fault is None or fault.kind is not Kind.REFUSED:
            return
        name = fault.message.removeprefix("UnsupportedError: ").split(" ")[0]
        first = next((number for number, text in enumerate(texts) if f"%{name} = " in text), 0)
        if first:
            self.found.notes.append(f"{name} is made by {places[first - 1]}")

    def _ignore_amplified_rounding(self, text: str) -> None:
        """Where no kernel is wrong by itself, the program may be one that makes much of the last bit."""
        self.say("changing the last bits of the arguments")
        if self._judged(self.laboratory.nudged(text)) is not None:
            self.found.fault = None
            self.found.notes.append(
                "the results differ, but every kernel is right by itself, and the program amplifies rounding: the "
                "interpreter's own results differ as much when the arguments change in their last bit"
            )

    def _kernel(self, optimized: str, fault: Fault) -> KernelFault | None:
        if len(self.laboratory.values) > 1:
            self.found.notes.append("kernels are not looked at one by one in programs on several devices")
            return None
        if fault.kind is Kind.REFUSED:
            return None
        return find_kernel(optimized, self.laboratory, self.say)

    def _narrow(self) -> None:
        found = self.found
        if found.fault is None or found.place is None or self.settings.reducing <= 0:
            return
        found.reduced = reduce_for_pass(
            self.laboratory,
            parse_hlo(found.before),
            (self.settings.passes, found.place.place),
            found.fault,
            self.settings.reducing,
            self.say,
        )
        if found.reduced is None:
            found.notes.append("alone on the module before it, the pass does not show this: the program is not reduced")


def _lie(run: Run) -> str:
    if run.text is None:
        return f"{run.place} reports a change and makes none"
    return f"{run.place} changes the module and reports that it does not"
