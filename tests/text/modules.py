"""HLO texts that contain every form the parser accepts, used by several tests of the text layer."""

from __future__ import annotations

REDUCE = """
HloModule reduce_rows, is_scheduled=true, input_output_alias={ {}: (0, {}, must-alias) }, buffer_donor={ (1, {}) }, \
entry_computation_layout={(f32[4]{0}, f32[4,8]{0,1})->f32[4]{0}}, replica_count=2, num_partitions=4, \
frontend_attributes={a="x y",j={"k": [1, {}]}}

%add_f32 (lhs: f32[], rhs: f32[]) -> f32[] {
  %lhs = f32[] parameter(0)
  %rhs = f32[] parameter(1)
  ROOT %sum = f32[] add(f32[] %lhs, f32[] %rhs)
}

ENTRY %main (start: f32[4], rows: f32[4,8]) -> f32[4] {
  %start = f32[4]{0} parameter(0), parameter_replication={true}, origin={{"start"}}
  %rows = f32[4,8]{0,1:T(2,128)} parameter(1), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  %zero = f32[] constant(-0.5), metadata={op_type="c" op_name="jit(f)/\\"q\\"" source_file="a b.py" source_line=7}
  %total = f32[4]{0} reduce(%rows, %zero), dimensions={1}, to_apply=%add_f32, backend_config={"kind": {"n": "}"}}
  %scaled = f32[4]{0} exponential(%total), result_accuracy={tolerance={rtol=0.5,atol=1,ulps=2}}
  ROOT %out = f32[4]{0} subtract(%scaled, %start), control-predecessors={%total}, backend_config="plain \\"text\\"", \
statistics={visualizing_index=1,count=3,share=0.25}
}
"""

LOOP = """
HloModule loop
condition {
  s = (s32[], f32[2,<=3], pred[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[2,<=3], /*index=2*/pred[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)  // counts
  x = f32[2,<=3] get-tuple-element(s), index=1
  p = pred[] get-tuple-element(s), index=2
  ROOT t = (s32[], f32[2,<=3], pred[]) tuple(next, x, p)
}
left { ROOT a = f32[2,<=3] parameter(0) }
right { a = f32[2,<=3] parameter(0)
  ROOT n = f32[2,<=3] negate(a) }
ENTRY main {
  start = (s32[], f32[2,<=3], pred[]) parameter(0)
  w = (s32[], f32[2,<=3], pred[]) while(start), condition=condition, body=body
  x = f32[2,<=3] get-tuple-element(w), index=1
  p = pred[] get-tuple-element(w), index=2
  i = s32[] get-tuple-element(w), index=0
  c = f32[2,<=3] conditional(p, x, x), true_computation=left, false_computation=right
  ROOT d = f32[2,<=3] conditional(i, c, x), branch_computations={right, left}
}
"""

ATTRIBUTES = """
HloModule attributes
max { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT m = f32[] maximum(x, y) }
ge { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT m = pred[] compare(x, y), direction=GE }
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT m = f32[] add(x, y) }
two { x = f32[] parameter(0)  y = f32[] parameter(1)
  a = s32[] parameter(2)  b = s32[] parameter(3)  ROOT m = pred[] compare(x, y), direction=LT, type=TOTALORDER }
ENTRY main {
  image = f32[1,8,8,3] parameter(0)
  kernel = f32[3,3,3,4] parameter(1)
  zero = f32[] constant(0)
  conv = f32[1,8,8,4] convolution(image, kernel), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, \
operand_precision={HIGH,default}
  pool = f32[1,4,4,4] reduce-window(conv, zero), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=max
  back = f32[1,8,8,4] select-and-scatter(conv, pool, zero), window={size=1x2x2x1 stride=1x2x2x1}, select=ge, scatter=add
  padded = f32[1,10,8,4] pad(back, zero), padding=0_0_0x1_1_0x0_0_0x0_0_0
  part = f32[1,4,8,4] slice(padded), slice={[0:1], [1:9:2], [0:8], [0:4]}
  t = f32[4,8,4,1]{0,1,2,3} transpose(part), dimensions={3,2,1,0}
  ids = s32[4,8,4,1] iota(), iota_dimension=1
  sorted = (f32[4,8,4,1], s32[4,8,4,1]) sort(t, ids), dimensions={1}, is_stable=true, to_apply=two
  where = s32[2] constant({0, 0})
  gathered = f32[2,8,8,3] gather(image, where), offset_dims={1,2,3}, collapsed_slice_dims={0}, \
start_index_map={0}, index_vector_dim=1, slice_sizes={1,8,8,3}
  all = f32[1,8,8,4] all-reduce(back), channel_id=3, replica_groups=[2,2]<=[4], use_global_device_ids=true, to_apply=add
  call = (f32[2], s32[]) custom-call(all), custom_call_target="f", api_version=API_VERSION_STATUS_RETURNING, \
output_to_operand_aliasing={}, custom_call_has_side_effect=true, backend_config="\\001"
  rng = f32[8] rng(zero, zero), distribution=rng_uniform
  tri = f32[4,4] constant({{1,0,0,0},{2,3,0,0},{4,5,6,0},{7,8,9,nan}})
  solved = f32[4,4] triangular-solve(tri, tri), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  z = c64[5] fft(rng), fft_type=RFFT, fft_length={8}
  ROOT out = ((f32[1,8,8,4], f32[2]), c64[5]) tuple((f32[1,8,8,4], f32[2]) tuple(all, f32[2] constant({1e-9, inf})), z)
}
"""

ASYNC = """
HloModule chains
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT m = f32[] add(x, y) }
work { p = f32[4] parameter(0)  q = f32[4] exponential(p)  ROOT r = f32[4] negate(q) }
ENTRY main {
  a = f32[4] parameter(0)
  order = token[] after-all()
  s = ((f32[4]), f32[4], s32[]) negate-start(a), async_execution_thread="side", metadata={op_name="n"}
  u = ((f32[4]), f32[4], s32[]) negate-update(s)
  d = f32[4] negate-done(u)
  c = ((f32[4]), f32[4], s32[]) call-start(d), to_apply=work
  e = f32[4] call-done(c)
  long = ((f32[4]), f32[4], s32[]) async-start(e), calls=work, frontend_attributes={_collectives_group="exp"}
  after = f32[4] async-done(long)
  r = f32[4] all-reduce-start(after), replica_groups={{0,1}}, to_apply=add
  f = f32[4] all-reduce-done(r)
  ROOT g = (f32[4], token[]) tuple(f, order)
}
"""

FRAMES = """
HloModule frames

FileNames
1 "unused.py"
2 "a\\"b.py"
3 "lib.py"

FunctionNames
1 "f"
2 "<lambda>"

FileLocations
1 {file_name_id=2 function_name_id=1 line=3 end_line=4 column=5 end_column=6}
2 {file_name_id=3 function_name_id=2 line=30 end_line=30 column=1 end_column=9}

StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

ENTRY main {
  a = f32[] parameter(0)
  b = f32[] negate(a), metadata={op_name="neg" stack_frame_id=2}
  ROOT c = f32[] negate(b), metadata={op_name="neg" stack_frame_id=9}
}
"""

FUSED = """
HloModule fused, is_scheduled=true
inner { b = f32[8] parameter(1)  a = f32[8] parameter(0)  s = f32[8] add(a, b)  ROOT m = f32[8] multiply(s, s) }
ENTRY main {
  y = f32[8] parameter(1)
  x = f32[8] parameter(0)
  big = s32[12] constant({1,2,3,4,5,6,7,8,9,10,11,12})
  ROOT f = f32[8] fusion(x, y), kind=kLoop, output_to_operand_aliasing={{}: (0, {})}, calls=inner
}
"""

MODULES = {
    "reduce": REDUCE,
    "loop": LOOP,
    "attributes": ATTRIBUTES,
    "async": ASYNC,
    "frames": FRAMES,
    "fused": FUSED,
}
