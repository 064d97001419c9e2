"""Samples of custom calls, with every form of their attributes."""

from __future__ import annotations

from xlapy.testing.samples.sample import ELEMENT_TYPES, Sample

_ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n\n"
_SAME = "same {\n  ROOT a = f32[4] parameter(0)\n}\n\n"


def _module(name: str, body: str, computations: str = "") -> Sample:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return Sample(name, f"HloModule {name}\n\n{computations}ENTRY main {{\n{lines}\n}}\n")


def _of_two(name: str, attributes: str, result: str = "f32[4]", computations: str = "") -> Sample:
    """Returns a call of `target` with a vector and a matrix."""
    return _module(
        f"custom_call_{name}",
        f"""
        p = f32[4] parameter(0)
        m = f32[2,3]{{0,1}} parameter(1)
        ROOT r = {result} custom-call(p, m), {attributes}
        """,
        computations,
    )


def _of_type(t: str) -> Sample:
    return _module(
        f"custom_call_{t}",
        f"""
        a = {t}[2,3] parameter(0)
        b = {t}[] parameter(1)
        ROOT r = ({t}[3], {t}[]) custom-call(a, b), custom_call_target="target"
        """,
    )


_TARGET = 'custom_call_target="target"'

SAMPLES = [
    *map(_of_type, ELEMENT_TYPES),
    _module("custom_call_of_nothing", f"ROOT r = () custom-call(), {_TARGET}, custom_call_has_side_effect=true"),
    _module(
        "custom_call_of_tuple_and_token",
        f"""
        p = (f32[2], (s32[])) parameter(0)
        k = token[] after-all()
        ROOT r = ((s32[]), token[]) custom-call(p, k), {_TARGET}
        """,
    ),
    _of_two("target", 'custom_call_target="a \\"quoted\\" target"'),
    _of_two("dynamic", _TARGET, result="f32[<=4]"),
    _of_two("to_apply", f"{_TARGET}, to_apply=same", computations=_SAME),
    _of_two("computations", f"{_TARGET}, called_computations={{add, same}}", computations=_ADD + _SAME),
    _of_two("layouts", f"{_TARGET}, operand_layout_constraints={{f32[4]{{0}}, f32[2,3]{{0,1}}}}"),
    _of_two(
        "layout_of_result",
        f"{_TARGET}, operand_layout_constraints={{f32[4]{{0}}, f32[2,3]{{1,0}}}}",
        result="f32[3,2]{0,1}",
    ),
    _module("custom_call_no_layouts", f"ROOT r = f32[4] custom-call(), {_TARGET}, operand_layout_constraints={{}}"),
    _of_two("side_effect", f"{_TARGET}, custom_call_has_side_effect=true"),
    _of_two("aliasing", f"{_TARGET}, output_to_operand_aliasing={{{{}}: (0, {{}})}}"),
    _of_two(
        "aliasing_of_elements",
        f"{_TARGET}, output_to_operand_aliasing={{{{0}}: (1, {{}}), {{1}}: (0, {{}})}}",
        result="(f32[2,3], f32[4])",
    ),
    _of_two("literal", f"{_TARGET}, literal=s32[2,2]{{1,0}} {{{{1,2}},{{3,4}}}}"),
    _of_two("literal_scalar", f"{_TARGET}, literal=f32[] -0.5"),
    *(
        _of_two(schedule.lower(), f"{_TARGET}, schedule={schedule}")
        for schedule in ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
    ),
    *(
        _of_two(version.lower(), f"{_TARGET}, api_version={version}")
        for version in (
            "API_VERSION_ORIGINAL",
            "API_VERSION_STATUS_RETURNING",
            "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        )
    ),
    _of_two("text_config", f'{_TARGET}, backend_config="opaque \\"text\\"\\001"'),
    _of_two("json_config", f'{_TARGET}, api_version=API_VERSION_TYPED_FFI, backend_config={{"n": [1, {{"m": null}}]}}'),
    _of_two("typed_config", f"{_TARGET}, api_version=API_VERSION_TYPED_FFI, backend_config={{alpha = 2 : i32}}"),
    *(
        _of_two(padding.lower(), f"window={{size=2}}, padding_type={padding}, {_TARGET}")
        for padding in ("PADDING_VALID", "PADDING_SAME")
    ),
    _module(
        "custom_call_convolution",
        f"""
        x = f32[1,8,8,4] parameter(0)
        k = f32[3,3,2,6] parameter(1)
        ROOT r = (f32[1,8,8,6], u8[16]) custom-call(x, k), window={{size=3x3 pad=1_1x1_1}}, \
dim_labels=b01f_01io->b01f, feature_group_count=2, operand_precision={{high,highest}}, {_TARGET}
        """,
    ),
    _module(
        "custom_call_convolution_with_layouts",
        f"""
        x = f32[4,4,8] parameter(0)
        k = f32[4,2,3] parameter(1)
        ROOT r = f32[1,4,3] custom-call(x, k), window={{size=3 stride=2 lhs_dilate=1 rhs_dilate=2}}, \
dim_labels=bf0_oi0->bf0, batch_group_count=2, {_TARGET}, \
operand_layout_constraints={{f32[4,4,8]{{2,1,0}}, f32[4,2,3]{{2,1,0}}}}
        """,
    ),
    _of_two(
        "everything",
        "window={size=2}, dim_labels=b0f_0io->b0f, feature_group_count=2, batch_group_count=3, "
        f"operand_precision={{high}}, padding_type=PADDING_SAME, {_TARGET}, "
        "operand_layout_constraints={f32[4]{0}, f32[2,3]{0,1}}, "
        "custom_call_has_side_effect=true, literal=s32[2]{0} {1,2}, "
        "output_to_operand_aliasing={{}: (0, {})}, schedule=SCHEDULE_LATEST, api_version=API_VERSION_TYPED_FFI, "
        'backend_config={"x": 1}',
    ),
]
