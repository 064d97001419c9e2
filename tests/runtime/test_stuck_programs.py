"""Random programs whose devices diverge finish or report their deadlock at once; no thread outlives them."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners import replica
from tests.interpreter.runners.custom import registered
from tests.interpreter.runners.replica import make_client
from xlapy.base import flags
from xlapy.base.error_codes.execution import running
from xlapy.base.error_codes.execution.custom_calls import FAILED_TARGET
from xlapy.base.error_codes.structure import annotations
from xlapy.base.errors import XlaError
from xlapy.base.flags import Flags

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
P = "p = f32[2] parameter(0) "
TOKEN = "k = token[] after-all() "


def groups(rng: random.Random, replicas: int) -> str:
    """Replica groups: all devices in one, or groups of equal size."""
    size = rng.choice([n for n in range(1, replicas + 1) if replicas % n == 0])
    ids = rng.sample(range(replicas), replicas)
    rows = [ids[i : i + size] for i in range(0, replicas, size)]
    return rng.choice(["{}", "{" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows) + "}"])


def all_reduce(rng: random.Random, replicas: int) -> str:
    channel = rng.choice(["", f"channel_id={rng.randint(1, 2)}, "])
    return f"{P} ROOT r = f32[2] all-reduce(p), {channel}replica_groups={groups(rng, replicas)}, to_apply=add"


def all_gather(_: random.Random, replicas: int) -> str:
    gathered = f"g = f32[{2 * replicas}] all-gather(p), replica_groups={{}}, dimensions={{0}}"
    return f"{P} {gathered} ROOT r = f32[2] slice(g), slice={{[0:2]}}"


def permute(rng: random.Random, replicas: int) -> str:
    source, target = rng.sample(range(replicas), 2)
    return f"{P} ROOT r = f32[2] collective-permute(p), source_target_pairs={{{{{source},{target}}}}}"


def transfer(rng: random.Random, replicas: int) -> str:
    """A send, a recv or both, with or without source-target pairs."""
    source, target = rng.sample(range(replicas), 2)
    more = f", channel_id={rng.randint(1, 2)}"
    if rng.random() < 0.6:
        more = f', frontend_attributes={{_xla_send_recv_source_target_pairs="{{{{{source},{target}}}}}"}}'
    send = f"s = (f32[2], u32[], token[]) send(p, k){more} e = token[] send-done(s){more} "
    receive = f"""v = (f32[2], u32[], token[]) recv(k){more} w = (f32[2], token[]) recv-done(v){more}
      x = f32[2] get-tuple-element(w), index=0 """
    how = rng.choice(["send", "receive", "both", "both"])
    parts = (send if how != "receive" else "") + (receive if how != "send" else "")
    return f"{P} {TOKEN} {parts} ROOT r = f32[2] add(p, {'p' if how == 'send' else 'x'})"


def local(_: random.Random, __: int) -> str:
    return f"{P} ROOT r = f32[2] negate(p)"


def outfeed(_: random.Random, __: int) -> str:
    return f"{P} {TOKEN} o = token[] outfeed(p, k) ROOT r = f32[2] negate(p)"


def infeed(_: random.Random, __: int) -> str:
    return f"{P} {TOKEN} i = (f32[2], token[]) infeed(k) ROOT r = f32[2] get-tuple-element(i), index=0"


def fails(_: random.Random, __: int) -> str:
    return f'{P} ROOT r = f32[2] custom-call(p), custom_call_target="target"'


def refuse(_: Any) -> Any:
    raise ValueError("not now")


BODIES: list[Callable[[random.Random, int], str]] = [
    all_reduce,
    all_reduce,
    all_gather,
    permute,
    transfer,
    local,
    outfeed,
    infeed,
    fails,
]


def program(seed: int) -> tuple[str, int]:
    """Conditionals on the replica id, and loops whose trip count depends on the replica."""
    rng = random.Random(seed)
    replicas = rng.randint(2, 4)
    computations = [ADD]
    entry, value = "p = f32[2] parameter(0) id = u32[] replica-id() zero = u32[] constant(0) ", "p"
    for n in range(rng.randint(1, 3)):
        if rng.random() < 0.4:
            limit, start = rng.randint(1, 3), rng.choice(["id", "zero"])
            computations += [
                f"b{n} {{ {rng.choice(BODIES)(rng, replicas)} }}",
                f"""body{n} {{ t = (u32[], f32[2]) parameter(0) i = u32[] get-tuple-element(t), index=0
                x = f32[2] get-tuple-element(t), index=1 o = u32[] constant(1) j = u32[] add(i, o)
                y = f32[2] call(x), to_apply=b{n} ROOT q = (u32[], f32[2]) tuple(j, y) }}""",
                f"""below{n} {{ t = (u32[], f32[2]) parameter(0) i = u32[] get-tuple-element(t), index=0
                l = u32[] constant({limit}) ROOT q = pred[] compare(i, l), direction=LT }}""",
            ]
            entry += f"""t{n} = (u32[], f32[2]) tuple({start}, {value})
              w{n} = (u32[], f32[2]) while(t{n}), condition=below{n}, body=body{n}
              v{n} = f32[2] get-tuple-element(w{n}), index=1 """
        else:
            names = [f"b{n}_{branch}" for branch in range(rng.randint(1, 3))]
            computations += [f"{name} {{ {rng.choice(BODIES)(rng, replicas)} }}" for name in names]
            entry += f"""c{n} = s32[] convert(id) v{n} = f32[2] conditional(c{n}, {", ".join([value] * len(names))}),
              branch_computations={{{", ".join(names)}}} """
        value = f"v{n}"
    header = f"HloModule m, replica_count={replicas}\n"
    return header + "\n".join(computations) + f"\nENTRY e {{ {entry} ROOT r = f32[2] negate({value}) }}\n", replicas


MOST_FED = 9
"""Three loops of equal trip counts."""

SAID = {
    running.DEADLOCK: "never finishes",
    running.UNRECEIVED_MESSAGE: "not received",
    running.COLLECTIVE_MISMATCH: "another collective",
    running.CHANNEL_ENDS: "two senders",
    annotations.PAIR_MEMBERS: "no such id",
    annotations.GROUP_MEMBERS: "left out",
    FAILED_TARGET: "failed",
}


def outcome(seed: int) -> str:
    text, replicas = program(seed)
    try:
        executable = make_client(replicas).compile(text)
        for device in executable.devices:
            for _ in range(MOST_FED):
                device.transfer_to_infeed(np.ones(2, np.float32))
        results = xla.block_until_ready(executable.execute_sharded([[np.ones(2, np.float32)]] * replicas))
    except XlaError as error:
        return SAID.get(error.code, str(error))
    assert len(results) == replicas
    return "ends"


def test_programs_finish_or_report_the_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Flags({"collective_timeout": 20})
    monkeypatch.setattr(flags, "current", lambda: values)
    threads = threading.active_count()
    count = 400 if replica.platform == "interpreter" else 100
    with registered(refuse):
        met = Counter(outcome(seed) for seed in range(count))
    assert set(met) <= {"ends", *SAID.values()}  # none waited for the time-out
    assert min(met["ends"], met["never finishes"]) > count // 10 and met["two senders"] and met["not received"]
    assert met["failed"]
    assert threading.active_count() <= threads  # a thread of an earlier test may have ended meanwhile
