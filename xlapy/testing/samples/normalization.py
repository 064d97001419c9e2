"""Samples of batch normalization."""

from __future__ import annotations

from xlapy.testing.samples.sample import Sample

_TYPES = ("f8e5m2", "f8e4m3fn", "f16", "bf16", "f32", "f64")


def _vectors(t: str, features: str, *names: str) -> str:
    return "\n".join(f"{name} = {t}[{features}] parameter({number})" for number, name in enumerate(names, 1))


def _module(name: str, body: str) -> Sample:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return Sample(name, f"HloModule {name}\n\nENTRY main {{\n{lines}\n}}\n")


def _training(name: str, t: str, sizes: str, index: int, epsilon: str = "0.001") -> Sample:
    c = sizes.split(",")[index]
    return _module(
        name,
        f"""
        x = {t}[{sizes}] parameter(0)
        {_vectors(t, c, "scale", "offset")}
        ROOT r = ({t}[{sizes}], {t}[{c}], {t}[{c}]) batch-norm-training(x, scale, offset), epsilon={epsilon}, \
feature_index={index}
        """,
    )


def _inference(name: str, t: str, sizes: str, index: int, epsilon: str = "0.001") -> Sample:
    c = sizes.split(",")[index]
    return _module(
        name,
        f"""
        x = {t}[{sizes}] parameter(0)
        {_vectors(t, c, "scale", "offset", "mean", "variance")}
        ROOT r = {t}[{sizes}] batch-norm-inference(x, scale, offset, mean, variance), epsilon={epsilon}, \
feature_index={index}
        """,
    )


def _grad(name: str, t: str, sizes: str, index: int, epsilon: str = "0.001") -> Sample:
    c = sizes.split(",")[index]
    return _module(
        name,
        f"""
        x = {t}[{sizes}] parameter(0)
        {_vectors(t, c, "scale", "mean", "variance")}
        g = {t}[{sizes}] parameter(4)
        ROOT r = ({t}[{sizes}], {t}[{c}], {t}[{c}]) batch-norm-grad(x, scale, mean, variance, g), epsilon={epsilon}, \
feature_index={index}
        """,
    )


def _each(suffix: str, t: str, sizes: str, index: int, epsilon: str = "0.001") -> list[Sample]:
    """Returns modules with the three operations on one operand."""
    return [
        _training(f"batch_norm_training_{suffix}", t, sizes, index, epsilon),
        _inference(f"batch_norm_inference_{suffix}", t, sizes, index, epsilon),
        _grad(f"batch_norm_grad_{suffix}", t, sizes, index, epsilon),
    ]


SAMPLES = [
    *(sample for t in _TYPES for sample in _each(t, t, "4,2,3", 1)),
    *_each("first_dimension", "f32", "3,8", 0),
    *_each("last_dimension", "f32", "2,4,4,3", 3),
    *_each("vector", "f32", "5", 0),
    *_each("no_epsilon", "f64", "6,2", 1, "0"),
    *_each("small_epsilon", "f32", "6,2", 1, "1e-05"),
    *_each("one_element_a_feature", "f32", "1,3", 1),
    *_each("no_features", "f32", "4,0", 1),
    *_each("empty_batch", "f32", "0,3", 1),
    *_each("dynamic_batch", "f32", "<=4,3", 1),
    _module(
        "batch_norm_training_layout",
        """
        x = f32[2,3,4]{0,2,1} parameter(0)
        s = f32[3] parameter(1)
        ROOT r = (f32[2,3,4]{0,2,1}, f32[3], f32[3]) batch-norm-training(x, s, s), epsilon=0.5, feature_index=1
        """,
    ),
]
