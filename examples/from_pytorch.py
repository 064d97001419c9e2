"""Exports a PyTorch model to StableHLO with torch.export, compiles it with xlapy and compares it with PyTorch's
results.

Needs PyTorch and its exporter: pip install torch==2.9.0 torch-xla==2.9.0 'numpy<2.3'
Without them, it runs the saved export of the same model in examples/pytorch, which `python examples/from_pytorch.py
--save` wrote.
"""

import json
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import xlapy as xla

Exported = tuple[str, list[np.ndarray], np.ndarray]
"""A program as MLIR text, its arguments (including the weights), and the results that PyTorch computes from them."""

KEPT = Path(__file__).parent / "pytorch"


def export() -> Exported:
    """Exports a one-layer transformer with random weights, applied to 7 tokens of a vocabulary of 50."""
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    import torch
    from torch import nn
    from torch_xla.stablehlo import exported_program_to_stablehlo

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(50, 16), encoder, nn.Linear(16, 50)).eval()
    words = torch.randint(0, 50, (2, 7))
    with torch.no_grad():
        expected = model(words).numpy()
        program = exported_program_to_stablehlo(torch.export.export(model, (words,)))
    with tempfile.TemporaryDirectory() as folder:
        program.save(folder)
        return program.get_stablehlo_text(), arguments(Path(folder), [words.numpy()]), expected


def arguments(folder: Path, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Returns the arguments of the exported function in its order: saved weights and constants, and the model's
    inputs."""
    signature = json.loads((folder / "functions" / "forward.meta").read_text())
    found = []
    for location in signature["input_locations"]:
        if location["type_"] == "input_arg":
            found.append(inputs[location["position"]])
        elif location["type_"] == "parameter":
            found.append(np.load(folder / "data" / location["name"]))
        else:
            found.append(np.load(folder / "constants" / str(location["position"])))
    return found


def save(exported: Exported) -> None:
    text, values, expected = exported
    (KEPT / "transformer.mlir").write_text(text)
    np.savez(KEPT / "transformer.npz", *values, expected=expected)


def kept() -> Exported:
    with np.load(KEPT / "transformer.npz") as values:
        count = len(values.files) - 1
        return (KEPT / "transformer.mlir").read_text(), [values[f"arr_{n}"] for n in range(count)], values["expected"]


exported = export() if find_spec("torch_xla") else kept()
if "--save" in sys.argv[1:]:
    save(exported)
text, values, expected = exported
module = xla.parse_stablehlo(text)
print(f"{module.instruction_count} instructions: {module.entry_computation.program_shape.result.to_text(layout=False)}")
result = np.asarray(xla.Client().compile(module)(*values))
print("most likely words:", *result[0].argmax(-1))
print("as PyTorch says:  ", *expected[0].argmax(-1))
print("largest difference from PyTorch:", np.abs(result - expected).max())
assert np.allclose(result, expected, rtol=1e-4, atol=1e-5)
