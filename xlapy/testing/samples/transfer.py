"""Samples of operations that move data between the host, devices and memory spaces."""

from __future__ import annotations

from xlapy.testing.samples.sample import ELEMENT_TYPES, Sample


def _module(name: str, body: str) -> Sample:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return Sample(name, f"HloModule {name}\n\nENTRY main {{\n{lines}\n}}\n")


def _of_type(t: str) -> Sample:
    """Returns a module that feeds in, copies, sends, receives and feeds out an array of one type."""
    a = f"{t}[2,3]"
    return _module(
        f"transfer_{t}",
        f"""
        k = token[] after-all()
        i = ({a}, token[]) infeed(k)
        x = {a} get-tuple-element(i), index=0
        k.1 = token[] get-tuple-element(i), index=1
        c = ({a}, {a}, u32[]) copy-start(x)
        y = {a} copy-done(c)
        s = ({a}, u32[], token[]) send(y, k.1), channel_id=1
        k.2 = token[] send-done(s), channel_id=1
        v = ({a}, u32[], token[]) recv(k.2), channel_id=1
        w = ({a}, token[]) recv-done(v), channel_id=1
        z = {a} get-tuple-element(w), index=0
        k.3 = token[] get-tuple-element(w), index=1
        ROOT o = token[] outfeed(z, k.3), outfeed_shape={a}{{1,0}}
        """,
    )


SAMPLES = [
    *map(_of_type, ELEMENT_TYPES),
    _module(
        "infeed_of_tuple",
        """
        k = token[] after-all()
        ROOT i = ((f32[2,3]{0,1}, s32[]), token[]) infeed(k), infeed_config="a\\"b"
        """,
    ),
    _module("infeed_of_empty_tuple", "k = token[] after-all()\nROOT i = ((), token[]) infeed(k)"),
    _module(
        "infeed_twice",
        """
        k = token[] after-all()
        i = (f32[2], token[]) infeed(k)
        k.1 = token[] get-tuple-element(i), index=1
        ROOT j = (s32[], token[]) infeed(k.1)
        """,
    ),
    _module(
        "outfeed_of_tuple",
        """
        p = (f32[2,3], s32[]) parameter(0)
        k = token[] after-all()
        ROOT o = token[] outfeed(p, k), outfeed_shape=(f32[2,3]{0,1}, s32[]), outfeed_config="c"
        """,
    ),
    _module(
        "outfeed_of_nested_tuple",
        """
        p = ((f32[2]), ()) parameter(0)
        k = token[] after-all()
        ROOT o = token[] outfeed(p, k), outfeed_shape=((f32[2]{0}), ())
        """,
    ),
    _module(
        "outfeed_twice",
        """
        p = f32[2] parameter(0)
        k = token[] after-all()
        k.1 = token[] outfeed(p, k), outfeed_shape=f32[2]{0}
        ROOT o = token[] outfeed(p, k.1), outfeed_shape=f32[2]{0}
        """,
    ),
    _module(
        "send_to_host",
        """
        p = f32[2,3] parameter(0)
        k = token[] after-all()
        s = (f32[2,3], u32[], token[]) send(p, k), channel_id=7, is_host_transfer=true, \
frontend_attributes={_xla_host_transfer_rendezvous="here"}
        ROOT d = token[] send-done(s), channel_id=7, is_host_transfer=true
        """,
    ),
    _module(
        "recv_from_host",
        """
        k = token[] after-all()
        s = (f32[2,3]{0,1}, u32[], token[]) recv(k), channel_id=8, is_host_transfer=true
        ROOT d = (f32[2,3]{0,1}, token[]) recv-done(s), channel_id=8, is_host_transfer=true
        """,
    ),
    _module(
        "send_and_recv_of_tuple",
        """
        p = (f32[2], s32[]) parameter(0)
        k = token[] after-all()
        s = ((f32[2], s32[]), u32[], token[]) send(p, k), channel_id=1
        v = ((f32[2], s32[]), u32[], token[]) recv(k), channel_id=1
        k.1 = token[] send-done(s), channel_id=1
        d = ((f32[2], s32[]), token[]) recv-done(v), channel_id=1
        ROOT t = (token[], ((f32[2], s32[]), token[])) tuple(k.1, d)
        """,
    ),
    _module(
        "send_and_recv_without_channel",
        """
        p = f32[2] parameter(0)
        k = token[] after-all()
        s = (f32[2], u32[], token[]) send(p, k), frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}
        v = (f32[2], u32[], token[]) recv(k), frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}
        k.1 = token[] send-done(s)
        ROOT d = (f32[2], token[]) recv-done(v)
        """,
    ),
    _module(
        "copy_to_memory",
        """
        p = f32[8,128]{1,0} parameter(0)
        s = (f32[8,128]{1,0:S(1)}, f32[8,128]{1,0}, u32[]) copy-start(p), cross_program_prefetch_index=0
        ROOT d = f32[8,128]{1,0:S(1)} copy-done(s)
        """,
    ),
    _module(
        "copy_of_dynamic",
        """
        p = f32[<=4] parameter(0)
        s = (f32[<=4], f32[<=4], u32[]) copy-start(p)
        ROOT d = f32[<=4] copy-done(s)
        """,
    ),
]
