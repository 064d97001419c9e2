"""Tuned plans: plans of kernels that were measured on a machine, by the fingerprint of the kernel.

A tuning file is JSON with one kernel per line, sorted:

    {
    "format": "xlapy tuning 1",
    "kernels": [
    {"kernel": "0f3c...", "instructions": "AVX512_BF16", "plan": {"strategy": "direct-gemm"}, "what": "dot ..."}
    ]
    }

`kernel` is the fingerprint of a kernel, `instructions` names the processor's instruction set, `what` is for readers.

Responsible for the records and the text of a file. Does not depend on how plans are found or on where files are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen.extraction import kernel_fingerprint
from xlapy.codegen.plan import DemandedPlan, plan_of_entries
from xlapy.hlo.instruction import Instruction

FORMAT = "xlapy tuning 1"
"""The value of `format` of files that this version reads and writes."""

_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, order=True)
class TunedKernel:
    """The plan of a kernel on processors with an instruction set."""

    instructions: str
    """The name of the instruction set (`cpu.llvm.processor.instruction_set`)."""
    fingerprint: str
    """`kernel_fingerprint` of the kernel."""
    plan: DemandedPlan
    what: str = ""
    """A description of the kernel for readers of the file."""

    @property
    def line(self) -> str:
        """The kernel as a line of a tuning file."""
        plan = {"strategy": self.plan.strategy, **dict(self.plan.parameters)}
        entry = {"kernel": self.fingerprint, "instructions": self.instructions, "plan": plan, "what": self.what}
        return json.dumps(entry)


class TunedPlans:
    """The plans of a tuning file for one instruction set. source: the file, for messages."""

    def __init__(self, source: str, plans: Mapping[str, DemandedPlan]) -> None:
        self.source = source
        self._plans = dict(plans)
        text = repr(sorted((fingerprint, plan.strategy, plan.parameters) for fingerprint, plan in plans.items()))
        self.digest = hashlib.sha256(text.encode()).hexdigest() if plans else ""
        """Is equal for equal plans; empty without plans. Part of the key of compiled programs."""

    def plan_of(self, instruction: Instruction) -> DemandedPlan | None:
        """The plan of the kernel that computes an instruction; None if the file has none."""
        return self._plans.get(kernel_fingerprint(instruction)) if self._plans else None


NO_TUNED_PLANS = TunedPlans("", {})
"""What programs are compiled with when no tuning file is named."""


def plans_for(kernels: Iterable[TunedKernel], instructions: str, source: str) -> TunedPlans:
    """Returns the plans of the kernels for an instruction set."""
    return TunedPlans(source, {k.fingerprint: k.plan for k in kernels if k.instructions == instructions})


def merged_kernels(old: Iterable[TunedKernel], new: Iterable[TunedKernel]) -> list[TunedKernel]:
    """Returns the kernels of both, sorted; of two plans for a kernel and an instruction set, the new one."""
    return sorted({(kernel.instructions, kernel.fingerprint): kernel for kernel in (*old, *new)}.values())


def tuning_text(kernels: Iterable[TunedKernel]) -> str:
    """Returns the text of a tuning file. Equal kernels give equal text, in whatever order."""
    lines = ",\n".join(kernel.line for kernel in merged_kernels((), kernels))
    return "\n".join(["{", f'"format": "{FORMAT}",', '"kernels": [', *([lines] if lines else []), "]", "}", ""])


def parse_tuning(text: str, source: str) -> list[TunedKernel]:
    """Reads the text of a tuning file. source: its name. Raises `InvalidArgumentError`, which names the file and the
    entry, for text that is not in the format."""
    try:
        parsed: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(codes.TUNING_FILE, f"{source} is no tuning file: {error}") from error
    if not isinstance(parsed, dict) or not isinstance(parsed.get("kernels"), list):
        raise InvalidArgumentError(
            codes.TUNING_FILE, f'{source} is no tuning file: it is no JSON object with a list of "kernels"'
        )
    data = cast("dict[str, Any]", parsed)
    if data.get("format") != FORMAT:
        raise InvalidArgumentError(
            codes.TUNING_FILE,
            f"{source} has the format {json.dumps(data.get('format'))}, this version reads {json.dumps(FORMAT)}",
        )
    kernels: list[TunedKernel] = []
    for number, entry in enumerate(data["kernels"], 1):
        try:
            kernels.append(_kernel(entry))
        except ValueError as error:
            raise InvalidArgumentError(codes.TUNING_FILE, f"{source}: kernel {number}: {error}") from error
    return kernels


def _kernel(entry: Any) -> TunedKernel:
    """Raises `ValueError` for an entry that describes no kernel with a plan."""
    if not isinstance(entry, dict):
        raise ValueError(f"it must be an object, not {json.dumps(entry)[:40]}")
    given = cast("dict[str, Any]", entry)
    for name in ("kernel", "instructions"):
        if not isinstance(given.get(name), str):
            raise ValueError(f'it has no "{name}", a string')
    if not _FINGERPRINT.fullmatch(given["kernel"]):
        raise ValueError(f'its "kernel" {json.dumps(given["kernel"])[:60]} is no fingerprint, 32 hexadecimal digits')
    plan = plan_of_entries(given.get("plan"), "plan")
    return TunedKernel(given["instructions"], given["kernel"], plan, str(given.get("what", "")))
