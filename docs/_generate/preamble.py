"""What the examples of the reference use: the imports, and functions that run a computation and print its result."""

import re
import textwrap

import numpy as np

import xlapy as xla
from xlapy import ops


def computation(function, *shapes):
    """Builds a computation whose parameters have these shapes."""
    b = xla.XlaBuilder("computation")
    given = [ops.parameter(b, n, xla.Shape.parse(s)) for n, s in enumerate(shapes)]
    return b.build(function(*given))


def show(*results):
    """Runs the computation of these results, and prints each."""
    b = results[0].builder
    values = xla.Client("reference").compile(b.build(ops.tuple(b, results)))()
    for value in values:
        print(text(value))


def show_replicas(result, *arguments):
    """Runs a computation on replicas; each argument is the parameter 0 of one."""
    count = len(arguments)
    client = xla.Client("reference", devices=count)
    program = client.compile(result.builder.build(result), num_replicas=count)
    values = program.execute_sharded([[xla.Literal.of(a)] for a in arguments])
    for replica, value in enumerate(values):
        print(f"replica {replica}: {text(value)}")


def refused(call):
    """Prints the message of the error that a call raises."""
    try:
        call()
    except xla.XlaError as error:
        print(textwrap.fill(str(error), 78, subsequent_indent="  "))
    else:
        raise AssertionError("the call succeeds")


def text(value):
    """Returns a shape and its elements, such as `f32[2] {1, 2}`."""
    if isinstance(value, tuple):
        return "(" + ",\n ".join(map(text, value)) + ")"
    literal = xla.Literal.of(np.asarray(value))
    elements = re.sub(r"/\*.*?\*/ ", "", literal.to_text())
    elements = elements.replace("{ ", "{").replace(" }", "}")
    if len(elements) > 60:
        between = "}}, {{" if "}}, {{" in elements else "}, {"
        elements = elements.replace(between, between.replace(" ", "\n  "))
        if "\n" not in elements:
            elements = textwrap.fill(elements, 66, subsequent_indent="  ")
    return f"{literal.shape.to_text(layout=False)} {elements}"
