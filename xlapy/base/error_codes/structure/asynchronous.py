"""Asynchronous operations, transfers, buffers and layouts.

Codes E2050 to E2079: rules of the verifier about values that several instructions pass on.
"""

from xlapy.base.error_codes.code import ErrorCode

# -- asynchronous operations and transfers

ASYNC_READER = ErrorCode(
    "E2050",
    "The result of a start operation is read exactly once, by its done or update operation.",
    remedy="Read other values from the done operation.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT start = (f32[2], f32[2], u32[]) copy-start(x)
        }
    """,
)
ASYNC_OPERAND = ErrorCode(
    "E2051",
    "Operand 0 of a done or update operation is its start operation.",
    remedy="Pass the start operation itself, not a value computed from it.",
    hlo="""
        HloModule m
        ENTRY main {
          x = (f32[2], f32[2], u32[]) parameter(0)
          ROOT done = f32[2] copy-done(x)
        }
    """,
)
ASYNC_SHAPE = ErrorCode(
    "E2052",
    "An asynchronous chain declares the operands and the result of the computation that it calls.",
    remedy="Declare `((operands...), result, context...)` as the shape of start and update operations.",
    hlo="""
        HloModule m
        f {
          x = f32[2] parameter(0)
          y = f32[2] parameter(1)
          ROOT z = f32[2] add(x, y)
        }
        ENTRY main {
          x = f32[2] parameter(0)
          start = ((f32[2]), f32[2], s32[]) async-start(x), calls=f
          ROOT done = f32[2] async-done(start)
        }
    """,
)
ASYNC_ONE_OPERATION = ErrorCode(
    "E2053",
    "An async-start on the main thread runs one operation.",
    remedy="Start each operation on its own, or set `async_execution_thread`.",
    hlo="""
        HloModule m
        f {
          x = f32[2] parameter(0)
          y = f32[2] negate(x)
          ROOT z = f32[2] negate(y)
        }
        ENTRY main {
          x = f32[2] parameter(0)
          start = ((f32[2]), f32[2], s32[]) async-start(x), calls=f
          ROOT done = f32[2] async-done(start)
        }
    """,
)
ASYNC_OPERATION = ErrorCode(
    "E2054",
    "A short asynchronous form names an operation that can run asynchronously, the same along its chain.",
    remedy="Write `negate-start`, `negate-update` and `negate-done` for one operation `negate`.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          start = ((f32[2]), f32[2], s32[]) negate-start(x)
          ROOT done = f32[2] abs-done(start)
        }
    """,
)
CHANNEL_PAIR = ErrorCode(
    "E2055",
    "A send or recv and its done operation have the same channel id and `is_host_transfer`.",
    remedy="Copy both attributes to the done operation.",
    hlo="""
        HloModule m
        ENTRY main {
          t = token[] after-all()
          recv = (f32[2], u32[], token[]) recv(t), channel_id=1
          ROOT done = (f32[2], token[]) recv-done(recv), channel_id=2
        }
    """,
)
HOST_CHANNEL = ErrorCode(
    "E2056",
    "Transfers with the host through one channel differ in their operands only.",
    remedy="Give transfers of other shapes or directions other channel ids.",
    hlo="""
        HloModule m
        ENTRY main {
          t = token[] after-all()
          a = (f32[2], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true
          a.done = (f32[2], token[]) recv-done(a), channel_id=1, is_host_transfer=true
          b = (f32[3], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true
          ROOT b.done = (f32[3], token[]) recv-done(b), channel_id=1, is_host_transfer=true
        }
    """,
)

# -- buffers

BUFFER_PLACE = ErrorCode(
    "E2060",
    "Only tuples, loops, branches, calls, fusions, custom calls and asynchronous operations pass buffers on.",
    remedy="Convert the buffer to an array with a custom call of `Unpin`.",
    hlo="""
        HloModule m
        ENTRY main {
          x = b(f32[2]) custom-call(), custom_call_target="CreateBuffer"
          t = token[] after-all()
          ROOT y = b(f32[2]) add-dependency(x, t)
        }
    """,
)
BUFFER_CALL = ErrorCode(
    "E2061",
    "`CreateBuffer` returns a buffer, `Pin` makes one of an array, and `Unpin` makes an array of it, of equal shapes.",
    remedy="Declare the shape `b(f32[2])` for a buffer that holds `f32[2]`.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = b(f32[2]) custom-call(x), custom_call_target="CreateBuffer"
        }
    """,
)
BUFFER_ALIAS = ErrorCode(
    "E2062",
    "A custom call pairs each buffer among its operands with one of its results.",
    remedy="Add the pair to `output_to_operand_aliasing`.",
    hlo="""
        HloModule m
        ENTRY main {
          x = b(f32[2]) custom-call(), custom_call_target="CreateBuffer"
          y = b(f32[2]) custom-call(x), custom_call_target="write"
          ROOT z = f32[2] custom-call(y), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}
        }
    """,
)
BUFFER_WRITERS = ErrorCode(
    "E2063",
    "At most one instruction writes a buffer; the next one takes its result.",
    remedy="Chain the instructions: pass the buffer that the first one returns to the second one.",
    hlo="""
        HloModule m
        ENTRY main {
          x = b(f32[2]) custom-call(), custom_call_target="CreateBuffer"
          y = b(f32[2]) custom-call(x), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}
          z = b(f32[2]) custom-call(x), custom_call_target="g", output_to_operand_aliasing={{}: (0, {})}
          a = f32[2] custom-call(y), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}
          b = f32[2] custom-call(z), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}
          ROOT sum = f32[2] add(a, b)
        }
    """,
)
LAYOUT_KEPT = ErrorCode(
    "E2070",
    "After layout assignment, a value keeps its layout until a copy or bitcast changes it.",
    remedy="Insert a copy to the layout that is expected.",
    python="""
        from xlapy.hlo.verification.layouts import verify_layouts
        module = xla.parse_hlo("ENTRY main { x = f32[2,3]{0,1} parameter(0)  ROOT y = f32[2,3]{1,0} negate(x) }")
        verify_layouts(module)
    """,
)
