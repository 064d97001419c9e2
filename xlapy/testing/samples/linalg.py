"""Samples of matrix factorizations, triangular solves and Fourier transforms."""

from __future__ import annotations

from xlapy.testing.samples.sample import Sample

_TYPES = ("f16", "bf16", "f32", "f64", "c64", "c128")


def _module(name: str, body: str) -> Sample:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return Sample(name, f"HloModule {name}\n\nENTRY main {{\n{lines}\n}}\n")


def _cholesky(name: str, shape: str, attributes: str) -> Sample:
    return _module(name, f"a = {shape} parameter(0)\nROOT r = {shape} cholesky(a){attributes}")


def _solve(name: str, a: str, b: str, attributes: str) -> Sample:
    return _module(
        name,
        f"""
        a = {a} parameter(0)
        b = {b} parameter(1)
        ROOT r = {b} triangular-solve(a, b), {attributes}
        """,
    )


def _fft(name: str, operand: str, result: str, kind: str, length: str) -> Sample:
    return _module(
        name, f"x = {operand} parameter(0)\nROOT r = {result} fft(x), fft_type={kind}, fft_length={{{length}}}"
    )


def _of_type(t: str) -> list[Sample]:
    return [
        _cholesky(f"cholesky_{t}", f"{t}[3,3]", ", lower=true"),
        _solve(
            f"triangular_solve_{t}", f"{t}[3,3]", f"{t}[3,2]", "left_side=true, lower=true, transpose_a=NO_TRANSPOSE"
        ),
    ]


def _forms(left: bool) -> list[Sample]:
    """Returns modules with each combination of triangle, diagonal and transposition, for one side."""
    side, b = ("left_side=true, ", "f32[4,4,2]") if left else ("", "f32[4,2,4]")
    return [
        _solve(
            f"triangular_solve_{'left' if left else 'right'}_{'lower' if lower else 'upper'}"
            f"{'_unit' if unit else ''}_{transpose.lower()}",
            "f32[4,4,4]",
            b,
            f"{side}{'lower=true, ' if lower else ''}{'unit_diagonal=true, ' if unit else ''}transpose_a={transpose}",
        )
        for lower in (False, True)
        for unit in (False, True)
        for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    ]


def _transforms(real: str, complex: str) -> list[Sample]:
    """Returns modules with each kind of transform over one to three dimensions of even and odd lengths."""
    c, r = complex, real
    return [
        _fft(f"fft_{c}", f"{c}[2,8]", f"{c}[2,8]", "FFT", "8"),
        _fft(f"fft_odd_{c}", f"{c}[7]", f"{c}[7]", "FFT", "7"),
        _fft(f"fft_2d_{c}", f"{c}[2,4,6]", f"{c}[2,4,6]", "FFT", "4,6"),
        _fft(f"ifft_{c}", f"{c}[2,8]", f"{c}[2,8]", "IFFT", "8"),
        _fft(f"ifft_3d_{c}", f"{c}[2,3,4]", f"{c}[2,3,4]", "IFFT", "2,3,4"),
        _fft(f"rfft_{r}", f"{r}[3,8]", f"{c}[3,5]", "RFFT", "8"),
        _fft(f"rfft_odd_{r}", f"{r}[3,9]", f"{c}[3,5]", "RFFT", "9"),
        _fft(f"rfft_2d_{r}", f"{r}[4,6]", f"{c}[4,4]", "RFFT", "4,6"),
        _fft(f"irfft_{r}", f"{c}[3,5]", f"{r}[3,8]", "IRFFT", "8"),
        _fft(f"irfft_odd_{r}", f"{c}[3,5]", f"{r}[3,9]", "IRFFT", "9"),
        _fft(f"irfft_3d_{r}", f"{c}[2,3,3]", f"{r}[2,3,4]", "IRFFT", "2,3,4"),
    ]


SAMPLES = [
    *(sample for t in _TYPES for sample in _of_type(t)),
    _cholesky("cholesky_upper", "f32[3,3]", ""),
    _cholesky("cholesky_batch", "f64[2,3,4,4]", ", lower=true"),
    _cholesky("cholesky_single", "c64[1,1]", ", lower=true"),
    _cholesky("cholesky_empty", "f32[2,0,0]", ", lower=true"),
    _cholesky("cholesky_dynamic", "f32[<=2,3,3]", ", lower=true"),
    *_forms(left=True),
    *_forms(left=False),
    _solve("triangular_solve_no_columns", "c128[3,3]", "c128[3,0]", "left_side=true, lower=true, transpose_a=ADJOINT"),
    _solve("triangular_solve_empty", "f64[0,0]", "f64[0,2]", "left_side=true, lower=true, transpose_a=NO_TRANSPOSE"),
    *_transforms("f32", "c64"),
    *_transforms("f64", "c128"),
    _fft("fft_single", "c64[1]", "c64[1]", "FFT", "1"),
    _fft("fft_empty_batch", "c64[0,4]", "c64[0,4]", "FFT", "4"),
    _fft("fft_layout", "c64[2,8]{0,1}", "c64[2,8]{0,1}", "FFT", "8"),
    _fft("rfft_dynamic", "f32[<=3,8]", "c64[<=3,5]", "RFFT", "8"),
]
