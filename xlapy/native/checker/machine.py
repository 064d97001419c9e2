"""The steps that lead from a state of a few threads that run native functions to the next ones.

A step is one synchronizing instruction of one thread (an atomic access, an acquired lock, a futex), and all that
follows up to the next one. Other instructions need no schedules of their own: accesses that could conflict are races
and reported, and whatever other threads do before a lock is released, they can do after that, too. Nor does an access
of a location that no other thread accesses in any schedule (`Privacy`).

A futex compares as a sequentially consistent load of its word does, and whoever wakes its threads makes what it has
seen of the word visible to them and to such loads: the kernel orders both, and nothing else.

Responsible for executing instructions. Must not know in which order states are explored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xlapy.native import ir
from xlapy.native.checker.arithmetic import compute, modified
from xlapy.native.checker.code import Code, Program
from xlapy.native.checker.describe import describe
from xlapy.native.checker.memory import UNINITIALIZED, Actor, Location, Memory, Pointer, ScheduleError
from xlapy.native.checker.models import MODELS, Model
from xlapy.native.checker.state import (
    ASLEEP,
    FINISHED,
    RUNNING,
    Block,
    Frame,
    LockState,
    Privacy,
    State,
    Thread,
    copied,
)

MAX_LOCAL_STEPS = 100_000
"""Instructions that a thread executes between two synchronizing ones, at most."""

_SYNCHRONIZING = (ir.ReadModifyWrite, ir.CompareExchange, ir.AcquireLock, ir.FutexWait, ir.FutexWake)

_MAX_PRIVATE_STEPS = 64
"""Accesses of private locations in one step, at most: a thread that spins may wait for another one, which accesses the
location only later in the exploration."""

_ALLOCATIONS = frozenset(map(ir.Symbol, ("malloc", "aligned_alloc")))
"""Functions that fail if memory is exhausted. Their last argument is the number of bytes."""


class Machine:
    """Executes the functions of a program.

    models: external functions by name. exhausts_memory: whether any allocation may fail. times_out: whether waits with
    a limit of time end without being woken. privacy: None while only one thread runs.
    """

    privacy: Privacy | None = None

    def __init__(
        self, program: Program, models: Mapping[str, Model], exhausts_memory: bool = False, times_out: bool = True
    ) -> None:
        self.program, self.models = program, {**MODELS, **models}
        self.exhausts_memory, self.times_out = exhausts_memory, times_out

    def initial_state(self, thread_count: int) -> State:
        """Static memory is zero, and no thread runs. The last of the threads sets up and finishes."""
        blocks = {
            ("static", name): Block(size, is_zeroed=True, name=name) for name, size in self.program.statics.items()
        }
        threads = [
            Thread((), Actor(number, tuple(int(one == number) for one in range(thread_count)), {}), FINISHED)
            for number in range(thread_count)
        ]
        return State(threads, Memory(thread_count), blocks)

    def started(self, state: State, number: int, name: str, arguments: Sequence[Any]) -> State:
        """The state after a thread has begun to run a function."""
        made = state.copy(number)
        thread = made.threads[number]
        code = self.program.codes[name]
        thread.frames = (Frame(name, 0, dict(zip(code.parameters, arguments, strict=True))),)
        thread.status = RUNNING
        Execution(self, made, thread).run(private=0)
        return made

    def steps(self, state: State, number: int) -> Iterator[tuple[str, State | ScheduleError]]:
        """The next states if a thread executes its next step, with a description of each. An error ends the run."""
        thread = state.threads[number]
        if thread.status != RUNNING:
            return
        frame = thread.frames[-1]
        instruction = self.program.codes[frame.name].instructions[frame.position]
        for choice in self._choices(state, number, instruction):
            made = state.copy(number)
            execution = Execution(self, made, made.threads[number])
            try:
                execution.synchronize(instruction, choice)
                execution.run()
            except ScheduleError as error:
                yield f"{frame.name}: {describe(instruction)}", error
                continue
            yield f"{frame.name}: {describe(instruction)}{execution.note}", made

    def _choices(self, state: State, number: int, instruction: ir.Instruction) -> Sequence[Any]:
        """What may happen when an instruction is executed: one element for each outcome; none if it must wait."""
        thread = state.threads[number]
        execution = Execution(self, state, thread)
        match instruction:
            case ir.Load(_, address, ordering) if ordering is not None:
                return self._loaded(execution, address, ordering)
            case ir.FutexWait(address):
                return self._loaded(execution, address, ir.SEQ_CST)
            case ir.CompareExchange():
                return self._exchanged(execution, instruction)
            case ir.AcquireLock(address):
                lock = state.locks.get(execution.location(address), LockState())
                if lock.holder == number:
                    return (0,)
                return (0,) if lock.holder < 0 else ()
            case ir.FutexWake(address, count):
                location = execution.location(address)
                sleepers = [one.actor.number for one in state.threads if one.sleeps_on == location]
                if len(sleepers) <= count:
                    return (tuple(sleepers),)
                return tuple((one,) for one in sleepers) if count == 1 else (tuple(sleepers[:count]),)
            case ir.Call():
                return (False, True) if self.exhausts_memory else (True,)
        return (0,)

    def _loaded(self, execution: Execution, address: ir.Operand, ordering: ir.Ordering) -> Sequence[int]:
        """The numbers of the writes that a load may return."""
        try:
            location = execution.location(address)
            initial = execution.initial(location)
        except ScheduleError:
            return (0,)
        return execution.state.memory.choices(execution.thread.actor, location, initial, ordering)

    def _exchanged(self, execution: Execution, instruction: ir.CompareExchange) -> Sequence[int]:
        """The numbers of the writes that a compare-exchange may read: the newest, or, as a load, an older one that is
        not what it expects, so that it fails."""
        numbers = self._loaded(execution, instruction.address, instruction.failure)
        if len(numbers) < 2:
            return numbers
        memory, location = execution.state.memory, execution.location(instruction.address)
        expected, newest = execution.value(instruction.expected), numbers[-1]
        return [one for one in numbers if one == newest or memory.value(location, UNINITIALIZED, one) != expected]


class Execution:
    """A step of a thread. Changes the state it is given."""

    def __init__(self, machine: Machine, state: State, thread: Thread) -> None:
        self.machine, self.state, self.thread = machine, state, thread
        self.note = ""

    # --- instructions

    def run(self, private: int = _MAX_PRIVATE_STEPS) -> None:
        """Executes instructions up to the next synchronizing one, or the end of the thread. private: accesses of
        private locations, at most."""
        if self.thread.status == ASLEEP:
            return
        left = private
        for _ in range(MAX_LOCAL_STEPS):
            if not self.thread.frames:
                self.thread.status = FINISHED
                if self.thread.held:
                    raise ScheduleError("assertion", f"a thread ends and holds the lock {self.thread.held[0]}")
                return
            frame = self.thread.frames[-1]
            instruction = self.code(frame).instructions[frame.position]
            if not self._is_synchronizing(instruction):
                self.execute(frame, instruction)
            elif self._is_private(instruction) and left:
                before, left = self.note, left - 1
                self.synchronize(instruction, self._newest(instruction))
                self.note = f"{before}; {describe(instruction)}{self.note}"
            else:
                return
        raise ScheduleError("endless", f"{self.thread.frames[-1].name} loops without synchronizing")

    def execute(self, frame: Frame, instruction: ir.Instruction) -> None:
        """Executes an instruction that needs no schedules of its own."""
        frame.position += 1
        match instruction:
            case ir.Compute(result, operation, operands):
                frame.registers[result.number] = compute(operation, result.type, operands, [*map(self.value, operands)])
            case ir.Assign(variable, value):
                frame.registers[variable.number] = self.value(value)
            case ir.Jump(target):
                frame.position = self.code(frame).targets[target]
            case ir.Branch(condition, if_true, if_false):
                frame.position = self.code(frame).targets[if_true if self.value(condition) else if_false]
            case ir.Return(value):
                self.return_value(None if value is None else self.value(value))
            case ir.Stack(result, size):
                frame.registers[result.number] = made = self.allocate(size)
                frame.stack = (*frame.stack, made)
            case ir.Load(result, address, _, place):
                location = self.location(address)
                initial = self.initial(location, place)
                value = self.state.memory.read(self.thread.actor, location, initial, place)
                frame.registers[result.number] = value
            case ir.Store(address, value, _, place):
                location = self.location(address)
                initial = self.initial(location, place)
                self.state.memory.write(self.thread.actor, location, initial, self.value(value), place)
            case ir.ReleaseLock(address, place):
                self._release(self.location(address), place)
            case ir.Check(condition, message):
                if not self.value(condition):
                    raise ScheduleError("assertion", f"{frame.name}: {message}")
            case ir.Call():
                self.call(frame, instruction)

    def synchronize(self, instruction: ir.Instruction, choice: Any) -> None:
        """Executes a synchronizing instruction. choice: which of the possible outcomes."""
        frame, actor, memory = self.thread.frames[-1], self.thread.actor, self.state.memory
        frame.position += 1
        match instruction:
            case ir.Load(result, address, ordering, place) if ordering is not None:
                location = self.location(address)
                initial = self.initial(location, place)
                frame.registers[result.number] = memory.load(actor, location, initial, ordering, choice, place)
                self.note = f" is {frame.registers[result.number]}"
            case ir.Store(address, value, ordering, place) if ordering is not None:
                location = self.location(address)
                stored = self.value(value)
                memory.store(actor, location, self.initial(location, place), ordering, stored, place)
                self.note = f" := {stored}"
            case ir.ReadModifyWrite(result, operation, address, value, ordering, place):
                location = self.location(address)
                initial = self.initial(location, place)
                before, read = memory.modify(actor, location, initial, ordering, place)
                after = modified(operation, result.type, before, self.value(value))
                memory.store(actor, location, initial, ordering, after, place, read)
                frame.registers[result.number] = before
                self.note = f" from {before} to {after}"
            case ir.CompareExchange():
                self._compare_exchange(frame, instruction, choice)
            case ir.AcquireLock(address, place):
                self._acquire(self.location(address), place)
            case ir.FutexWait(address, expected, timeout, place):
                sleeps = timeout is None or not self.machine.times_out
                self._futex_wait(self.location(address), self.value(expected), sleeps, choice, place)
            case ir.FutexWake(address):
                woken = self.location(address)
                memory.publish(actor, woken)
                for number in choice:
                    self.state.threads[number] = copied(self.state.threads[number])
                    sleeper = self.state.threads[number]
                    memory.show(actor, sleeper.actor, woken)
                    sleeper.status, sleeper.sleeps_on = RUNNING, None
                    Execution(self.machine, self.state, sleeper).run(private=0)
                self.note = f" wakes {list(choice)}"
            case ir.Call(result, _, arguments):
                size = self.value(arguments[-1])
                assert result is not None
                frame.registers[result.number] = self.allocate(size) if choice else 0

    def call(self, frame: Frame, instruction: ir.Call) -> None:
        """Calls a function of the program, or the model of an external one."""
        function = instruction.function
        name = function.name if isinstance(function, ir.Symbol) else self._function_at(self.value(function))
        arguments = [self.value(one) for one in instruction.arguments]
        if name in self.machine.program.codes:
            code = self.machine.program.codes[name]
            made = Frame(name, 0, dict(zip(code.parameters, arguments, strict=True)))
            self.thread.frames = (*self.thread.frames, made)
            return
        if name not in self.machine.models:
            raise ScheduleError("assertion", f"call of {name}, of which the checker has no model")
        value = self.machine.models[name](self, arguments)
        if instruction.result is not None:
            frame.registers[instruction.result.number] = value

    def return_value(self, value: Any) -> None:
        """Ends the innermost call, and with it the life of its stack memory."""
        for pointer in self.thread.frames[-1].stack:
            self.free(pointer)
        self.thread.frames = self.thread.frames[:-1]
        if not self.thread.frames:
            return
        caller = self.thread.frames[-1]
        call = self.code(caller).instructions[caller.position - 1]
        assert isinstance(call, ir.Call)
        if call.result is not None:
            caller.registers[call.result.number] = value

    # --- memory

    def allocate(self, size: int) -> Pointer:
        """A new block of uninitialized memory."""
        self.thread.allocations += 1
        name = (self.thread.actor.number, self.thread.allocations)
        self.state.blocks[name] = Block(size)
        return name, 0

    def free(self, pointer: Any) -> None:
        """Frees a block; nothing for null."""
        if pointer == 0:
            return
        name, offset = pointer
        block = self.block((name, offset), "free")
        if offset:
            raise ScheduleError("assertion", "free of an address inside of a block")
        for location in list(self.state.memory.cells):
            if location[0] == name:
                self.state.memory.check_free(self.thread.actor, location, f"free of its block, at {location[1]}")
                del self.state.memory.cells[location]
        self.state.blocks[name] = replace(block, is_freed=True)

    def block(self, location: Location, place: str) -> Block:
        """The block of a location that may be accessed."""
        block = self.state.blocks.get(location[0])
        if block is None:
            raise ScheduleError("bounds", f"access of {place} at {location}, which is not memory")
        if block.is_freed:
            raise ScheduleError("use after free", f"access of {place}")
        if not 0 <= location[1] < block.size:
            raise ScheduleError("bounds", f"access of {place} at byte {location[1]} of a block of {block.size}")
        return block

    def location(self, address: ir.Operand) -> Location:
        """The location that an operand points to."""
        pointer = self.value(address)
        if not isinstance(pointer, tuple):
            raise ScheduleError("bounds", f"access through the pointer {pointer}")
        return pointer

    def initial(self, location: Location, place: str = "memory") -> Any:
        """What a location contains before it is written."""
        return 0 if self.block(location, place).is_zeroed else UNINITIALIZED

    def value(self, operand: ir.Operand) -> Any:
        """The value of an operand."""
        match operand:
            case ir.Register(number, _):
                return self.thread.frames[-1].registers[number]
            case ir.SpinCount():
                return 1
            case ir.Constant(value, _):
                return value
        name = operand.name
        return (("static", name) if name in self.machine.program.statics else ("function", name)), 0

    def code(self, frame: Frame) -> Code:
        return self.machine.program.codes[frame.name]

    def _is_synchronizing(self, instruction: ir.Instruction) -> bool:
        if isinstance(instruction, ir.Load | ir.Store):
            return instruction.ordering is not None
        if isinstance(instruction, ir.Call):
            return self.machine.exhausts_memory and instruction.function in _ALLOCATIONS
        return isinstance(instruction, _SYNCHRONIZING)

    def _is_private(self, instruction: ir.Instruction) -> bool:
        """Whether no other thread can notice when an access happens."""
        match instruction:
            case (
                ir.Load(address=address)
                | ir.Store(address=address)
                | ir.ReadModifyWrite(address=address)
                | ir.CompareExchange(address=address)
                | ir.AcquireLock(address=address)
            ):
                location = self.value(address)
            case _:
                return False
        if not isinstance(location, tuple):
            return False
        return self.machine.privacy is None or self.machine.privacy.is_private(location, self.thread.actor.number)

    def _newest(self, instruction: ir.Instruction) -> int:
        """What an access of a private location reads: the number of its newest write."""
        if not isinstance(instruction, ir.Load | ir.CompareExchange):
            return 0
        cell = self.state.memory.cell(self.location(instruction.address), UNINITIALIZED)
        return cell.first + len(cell.writes) - 1

    def _function_at(self, pointer: Any) -> str:
        if not (isinstance(pointer, tuple) and pointer[0][0] == "function"):
            raise ScheduleError("assertion", f"call of {pointer}, which is not a function")
        return str(pointer[0][1])

    def _compare_exchange(self, frame: Frame, instruction: ir.CompareExchange, choice: int) -> None:
        actor, memory, place = self.thread.actor, self.state.memory, instruction.place
        location = self.location(instruction.address)
        initial = self.initial(location, place)
        before = memory.value(location, initial, choice)
        succeeds = before == self.value(instruction.expected)
        if succeeds:
            before, read = memory.modify(actor, location, initial, instruction.success, place)
            memory.store(actor, location, initial, instruction.success, self.value(instruction.new), place, read)
        else:
            memory.load(actor, location, initial, instruction.failure, choice, place)
        frame.registers[instruction.result.number] = before
        frame.registers[instruction.succeeded.number] = int(succeeds)
        self.note = f" from {before}" + (f" to {self.value(instruction.new)}" if succeeds else " fails")

    def _acquire(self, location: Location, place: str) -> None:
        self.initial(location, place)
        lock = self.state.locks.get(location, LockState())
        number = self.thread.actor.number
        if lock.holder == number:
            raise ScheduleError("deadlock", f"a thread acquires {place}, which it holds already")
        self.thread.actor.joins(lock.clock, lock.view)
        self.state.locks[location] = replace(lock, holder=number)
        self.thread.held = (*self.thread.held, location)

    def _release(self, location: Location, place: str) -> None:
        self.initial(location, place)
        if location not in self.thread.held:
            raise ScheduleError("assertion", f"a thread releases {place}, which it does not hold")
        clock, view = self.thread.actor.released()
        self.state.locks[location] = LockState(-1, clock, view)
        self.thread.held = tuple(one for one in self.thread.held if one != location)

    def _futex_wait(self, location: Location, expected: int, sleeps: bool, choice: int, place: str) -> None:
        """sleeps: whether the thread waits to be woken, rather than for the time to pass."""
        memory, actor = self.state.memory, self.thread.actor
        initial = self.initial(location, place)
        found = memory.load(actor, location, initial, ir.SEQ_CST, choice, place)
        if found == expected and sleeps:
            self.thread.status, self.thread.sleeps_on = ASLEEP, location
            self.note = " sleeps"
