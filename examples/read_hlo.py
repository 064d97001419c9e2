"""Reads HLO text, prints its instructions, changes one of them, prints the module and runs it before and after."""

import numpy as np

import xlapy as xla
from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.verify import verify

TEXT = """
HloModule distance

ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  difference = f32[4] subtract(a, b)
  ROOT absolute = f32[4] abs(difference)
}
"""

module = xla.parse_hlo(TEXT)
for instruction in module.entry_computation:
    operands = ", ".join(operand.name for operand in instruction.operands)
    users = ", ".join(user.name for user in instruction.users) or "the result"
    print(
        f"{instruction.name}: {instruction.shape.to_text(layout=False)} "
        f"= {instruction.op.name}({operands}), read by {users}"
    )

client = xla.Client("interpreter")
a, b = np.array([1, 2, 3, 4], np.float32), np.array([4, 3, 2, 2], np.float32)
print("distance before:", np.asarray(client.compile(module)(a, b)))

# |a - b| becomes (a - b)^2: the new instruction replaces the old one, which then has no users and is removed.
main = module.entry_computation
difference, absolute = main.find("difference"), main.find("absolute")
square = edit.create(main, opcodes.MULTIPLY, [difference, difference], name="square")
edit.replace_uses(absolute, square)
edit.remove(absolute)
verify(module)

print(module.to_text())
after = np.asarray(client.compile(module)(a, b))
print("distance after:", after)
assert np.array_equal(after, (a - b) ** 2)
