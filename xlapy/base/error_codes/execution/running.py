"""Running programs.

Codes E6200 to E6399: memory, launches, waits of devices for each other and for the host, and checks of values.
"""

from xlapy.base.error_codes.code import ErrorCode

OUT_OF_MEMORY = ErrorCode(
    "E6200",
    "The memory that arguments, results and temporary values need is available.",
    remedy="Run smaller pieces of the program, donate arguments, free buffers, or raise the limit of the process. "
    "`xlapy profile` shows the largest values.",
    python="""
        text = "HloModule m ENTRY e { x = f32[] constant(0) ROOT y = f32[1048576,1048576] broadcast(x), dimensions={} }"
        xla.Client().compile(text)()
    """,
    message="out of memory: m needs 4.4 TB for temporaries and results, ... are available; the largest: "
    "y (broadcast) f32[1048576,1048576] 4.4 TB [E6200]",
)
CANCELED = ErrorCode(
    "E6201",
    "A program runs to its end: no other device of the run fails, and no signal or exit ends the process.",
    remedy="Look for the error of another device. Interrupt a program only if its results are not needed.",
    why_no_example="a signal or another device has to end the run",
)
WAIT_TIMEOUT = ErrorCode(
    "E6202",
    "Each value that a device or the host waits for comes within the timeout.",
    remedy="Send the value that is missing, or raise the flag `collective_timeout` (seconds).",
    python="xla.Client().devices[0].transfer_from_outfeed(timeout=0)",
)
DEADLOCK = ErrorCode(
    "E6203",
    "The devices of a program do not wait for each other in a circle, or for a device that has finished.",
    remedy="Let all devices reach the same collectives in the same order; the message names the waiting devices and "
    "what each waits for.",
    python='''
        text = """HloModule m, replica_count=2
        add { a = u32[] parameter(0) b = u32[] parameter(1) ROOT c = u32[] add(a, b) }
        first { x = u32[] parameter(0) ROOT r = u32[] all-reduce(x), replica_groups={{0,1}}, to_apply=add }
        second { ROOT x = u32[] parameter(0) }
        ENTRY e {
          id = u32[] replica-id()
          i = s32[] convert(id)
          ROOT r = u32[] conditional(i, id, id), branch_computations={first, second}
        }"""
        program = xla.Client(devices=2).compile(text)
        xla.block_until_ready(program.execute_sharded([[], []]))
    ''',
)
UNRECEIVED_MESSAGE = ErrorCode(
    "E6204",
    "Each send to another device has a recv that takes its value.",
    remedy="Add the missing recv on the same channel, or remove the send.",
    python='''
        text = """HloModule m, replica_count=2
        ENTRY e {
          x = f32[] constant(1)
          t = token[] after-all()
          s = (f32[], u32[], token[]) send(x, t), frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}
          ROOT d = token[] send-done(s)
        }"""
        program = xla.Client(devices=2).compile(text)
        xla.block_until_ready(program.execute_sharded([[], []]))
    ''',
)
COLLECTIVE_MISMATCH = ErrorCode(
    "E6205",
    "All members of a group reach the same collective, with equal shapes and attributes.",
    remedy="Give collectives that do not belong together different channels; the message names both.",
    python='''
        text = """HloModule m, replica_count=2
        add { a = u32[] parameter(0) b = u32[] parameter(1) ROOT c = u32[] add(a, b) }
        first {
          x = u32[] parameter(0)
          ROOT r = u32[] all-reduce(x), channel_id=1, replica_groups={{0,1}}, to_apply=add
        }
        second {
          x = u32[] parameter(0)
          t = token[] after-all()
          i = (u32[1], token[]) infeed(t)
          y = u32[1] get-tuple-element(i), index=0
          z = u32[2] all-gather(y), channel_id=1, replica_groups={{0,1}}, dimensions={0}
          v = u32[1] slice(z), slice={[0:1]}
          ROOT r = u32[] reshape(v)
        }
        ENTRY e {
          id = u32[] replica-id()
          i = s32[] convert(id)
          ROOT r = u32[] conditional(i, id, id), branch_computations={first, second}
        }"""
        import time
        client = xla.Client(devices=2)
        results = client.compile(text).execute_sharded([[], []])
        time.sleep(0.3)  # device 0 is in the all-reduce when device 1 gets its infeed
        client.devices[1].transfer_to_infeed(np.zeros(1, np.uint32))
        xla.block_until_ready(results)
    ''',
    message="device ...: ... meets ... of device ... [E6205]",
)
CHANNEL_ENDS = ErrorCode(
    "E6206",
    "A channel without pairs joins one sending and one receiving device.",
    remedy="Give all pairs in the frontend attribute `_xla_send_recv_source_target_pairs`.",
    python='''
        text = """HloModule m, replica_count=2
        ENTRY e {
          x = f32[] constant(1)
          t = token[] after-all()
          s = (f32[], u32[], token[]) send(x, t), channel_id=1
          d = token[] send-done(s), channel_id=1
          ROOT r = f32[] negate(x)
        }"""
        program = xla.Client(devices=2).compile(text)
        xla.block_until_ready(program.execute_sharded([[], []]))
    ''',
    message="device ...: s (send): device ... and device ... both send on the channel, which joins two devices only; "
    "name the pairs in the frontend attribute _xla_send_recv_source_target_pairs [E6206]",
)
COMPLETED_TRANSFER = ErrorCode(
    "E6207",
    "Each recv has one recv-done.",
    remedy="Use the result of the first recv-done.",
    why_no_example="a verified program has one recv-done for each recv",
)
TRANSFER_SHAPE = ErrorCode(
    "E6208",
    "The value that a device sends has the shape that the other device receives.",
    remedy="Declare the same shape at send and recv.",
    python='''
        pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'
        text = f"""HloModule m, replica_count=2
        ENTRY e {{
          x = f32[] constant(1)
          t = token[] after-all()
          s = (f32[], u32[], token[]) send(x, t), {pairs}
          e = token[] send-done(s)
          v = (s8[], u32[], token[]) recv(t), {pairs}
          ROOT w = (s8[], token[]) recv-done(v)
        }}"""
        program = xla.Client(devices=2).compile(text)
        xla.block_until_ready(program.execute_sharded([[], []]))
    ''',
)
INVALID_VALUE = ErrorCode(
    "E6210",
    "If `check_nans` is on, no instruction makes a NaN from operands without NaN; `check_infs` checks infinities.",
    remedy="Look at the operands in the message, and guard the operation, as by a maximum before a logarithm.",
    python="""
        text = "HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] log(x) }"
        xla.Client().compile(text, check_nans=True)(-1.0)
    """,
)
ACCESS_BOUNDS = ErrorCode(
    "E6220",
    "Compiled code reads and writes elements of its arrays only; the flag `check_bounds` checks each access.",
    remedy="Report it with the program: this is an error of the compiler, not of the program.",
    why_no_example="an error of the compiler has to exist",
)
FOREIGN_ERROR = ErrorCode(
    "E6221",
    "Functions and clients outside of xlapy on which a launch depends do not fail.",
    remedy="Look at the message, and at the cause of the error, which has the exception and its lines.",
    why_no_example="the example of E6410 shows the usual case, a custom call that raises an exception",
)
FORKED = ErrorCode(
    "E6222",
    "The process that starts a launch completes it; a forked child has none of its results.",
    remedy="Fork before programs run, wait for all results before the fork, or start processes by `spawn`.",
    why_no_example="the process has to be forked while a program runs",
)
EVENT_STATE = ErrorCode(
    "E6223",
    "A program of the C API sets an event that it made by PJRT_Event_Create, once.",
    remedy="Set each event once.",
    why_no_example="only a client of the C API sets events",
)
