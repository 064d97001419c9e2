"""`xlapy demo`: trains a classifier of handwritten digits with a program built by `XlaBuilder`.

Responsible for data, training loop, progress, picture, and for checking that the saved program gives the same results.
The program itself is in `digits.py`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.runtime import Client, Executable
from xlapy.tools.demo.digits import CLASSES, HIDDEN, PIXELS, SHAPES, predictor, training_step
from xlapy.tools.files import save_arrays, write_file

BATCH, EPOCHS, RATE, HELD_BACK = 64, 30, 0.1, 360
TARGET = 0.95

Array = np.ndarray[Any, Any]


@click.command()
@click.option(
    "--output", default="demo-output", show_default=True, type=click.Path(file_okay=False), help="Output folder."
)
@click.option("--platform", default="interpreter", show_default=True, help="Platform to run on.")
@click.option("--seed", default=0, show_default=True, help="Seed of the data split and the initial weights.")
def demo(output: str, platform: str, seed: int) -> None:
    """Train a classifier on scikit-learn's 1,797 handwritten digits and run the saved program again."""
    _require_extra()
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    rng = np.random.default_rng(seed)
    images, labels = load_digits(rng)
    client = Client(platform)
    step = client.compile(training_step(BATCH, RATE))
    state = train(step, images[HELD_BACK:], labels[HELD_BACK:], rng, console)
    probabilities = _predict(client, images[:HELD_BACK], state)
    predicted = probabilities.argmax(axis=1)
    accuracy = float((predicted == labels[:HELD_BACK]).mean())
    console.print(f"accuracy on {HELD_BACK} held-back digits: [bold]{accuracy:.1%}[/bold] (target {TARGET:.0%})")
    picture = folder / "digits.png"
    draw(images[:HELD_BACK], predicted, labels[:HELD_BACK], picture)
    console.print(f"predictions drawn in {picture}")
    _run_again(step, folder, [images[HELD_BACK:][:BATCH], labels[HELD_BACK:][:BATCH], *state], platform, console)
    if accuracy < TARGET:
        raise ExecutionError(codes.DEMO_RESULT, f"accuracy {accuracy:.1%} is below the target {TARGET:.0%}")


def _require_extra() -> None:
    """Checks that the packages of the extra are installed, before training starts."""
    missing = [
        package for package, module in (("scikit-learn", "sklearn"), ("pillow", "PIL")) if find_spec(module) is None
    ]
    if missing:
        raise InvalidArgumentError(
            codes.OPTIONAL_PACKAGE, f"the demo needs {' and '.join(missing)}: pip install 'xlapy[demo]'"
        )


def load_digits(rng: np.random.Generator) -> tuple[Array, Array]:
    """Returns the digits in random order: images f32[1797,64] in 0..1 and labels s32[1797]."""
    from sklearn.datasets import load_digits as load

    bunch = load()
    order = rng.permutation(len(bunch.target))
    return (bunch.data[order] / 16).astype(np.float32), bunch.target[order].astype(np.int32)


def train(step: Executable, images: Array, labels: Array, rng: np.random.Generator, console: Console) -> list[Array]:
    """Runs the training step over shuffled batches. Returns the final parameters and velocities."""
    state = initial_state(rng)
    batches = len(images) // BATCH
    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}  loss {task.fields[loss]:.4f}"),
    )
    start = time.perf_counter()
    loss = float("nan")
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("", total=EPOCHS * batches, epoch=0, epochs=EPOCHS, loss=loss)
        for epoch in range(1, EPOCHS + 1):
            order = rng.permutation(len(images))[: batches * BATCH].reshape(batches, BATCH)
            losses: list[float] = []
            for rows in order:
                result, *new_state = step(images[rows], labels[rows], *state)
                state = [np.asarray(array) for array in new_state]
                losses.append(float(result))
                progress.update(task, advance=1)
            loss = float(np.mean(losses))
            progress.update(task, epoch=epoch, loss=loss)
    seconds = time.perf_counter() - start
    console.print(f"{EPOCHS * batches} steps of {BATCH} images in {seconds:.1f} s, last mean loss {loss:.4f}")
    return state


def initial_state(rng: np.random.Generator) -> list[Array]:
    """Returns He-scaled weights, zero biases and zero velocities."""
    scales = {"w1": np.sqrt(2 / PIXELS), "w2": np.sqrt(2 / HIDDEN)}
    dimensions = {"w1": (PIXELS, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, CLASSES), "b2": (CLASSES,)}
    weights = [(rng.standard_normal(dimensions[n]) * scales.get(n, 0)).astype(np.float32) for n in SHAPES]
    return weights + [np.zeros_like(w) for w in weights]


def _predict(client: Client, images: Array, state: Sequence[Array]) -> Array:
    return np.asarray(client.compile(predictor(len(images)))(images, *state[: len(SHAPES)]))


def draw(images: Array, predicted: Array, labels: Array, path: Path) -> None:
    """Writes a PNG of 40 digits with their predictions; wrong predictions come first, in red."""
    from PIL import Image, ImageDraw

    rows, columns, cell, scale = 5, 8, 96, 8
    wrong_first = np.argsort(predicted == labels, kind="stable")[: rows * columns]
    picture = Image.new("RGB", (columns * cell, rows * cell), "white")
    pen = ImageDraw.Draw(picture)
    for place, index in enumerate(wrong_first):
        x, y = place % columns * cell, place // columns * cell
        pixels = (255 - images[index].reshape(8, 8) * 255).astype(np.uint8)
        digit = Image.fromarray(pixels).resize((8 * scale, 8 * scale), Image.Resampling.NEAREST)
        picture.paste(digit, (x + 16, y + 6))
        right = predicted[index] == labels[index]
        text = f"{predicted[index]}" if right else f"{predicted[index]}, is {labels[index]}"
        pen.text((x + cell // 2, y + 83), text, fill="green" if right else "red", anchor="mm", font_size=14)
    write_file(str(path), lambda file: picture.save(file, "PNG"))


def _run_again(step: Executable, folder: Path, arguments: Sequence[Array], platform: str, console: Console) -> None:
    """Saves the step as HLO text, runs the file through the command line in a new process and compares every bit."""
    program, inputs, outputs = folder / "training_step.hlo", folder / "inputs.npz", folder / "results.npz"
    write_file(str(program), lambda file: file.write(step.as_hlo_text(print_large_constants=True).encode()))
    names = step.program_shape.parameter_names
    save_arrays(str(inputs), dict(zip(names, map(np.asarray, arguments), strict=True)))
    expected = [np.asarray(result) for result in step(*arguments)]
    command = [
        "-m",
        "xlapy",
        "run",
        str(program),
        "--input",
        str(inputs),
        "--save",
        str(outputs),
        "--platform",
        platform,
    ]
    console.print(f"running the saved step again: xlapy {' '.join(command[2:])}")
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    with np.load(outputs) as saved:
        equal = all(np.array_equal(saved[f"result{i}"], value) for i, value in enumerate(expected))
    if not equal:
        raise ExecutionError(codes.DEMO_RESULT, f"{program} gave other results than the program it was saved from")
    console.print(f"the {len(expected)} results of {program} are equal, bit for bit")
