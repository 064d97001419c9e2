"""What native functions may not do: each rule is an error when the function is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from xlapy.native.function import Function, Static, native, native_holding
from xlapy.native.ir import ACQUIRE, RELAXED, NativeTypeError
from xlapy.native.records import Atomic, Final, Guarded, Lock, Owned, Record, Trailing
from xlapy.native.values import Bool, Int32, Nullable, Word


class Shared(Record, lock="lock"):
    """A record with a field of each kind."""

    lock: Lock
    count: Atomic[Word]
    link: Atomic[Nullable[Shared]]
    guarded: Guarded[Word]
    size: Final[Word]
    mine: Owned[Word]
    rows: Trailing[Word]


SHARED = Static("shared_of_rules", Shared)


def assigns_an_atomic(f: Function) -> None:
    f.static(SHARED).count = 1


def reads_an_atomic_plainly(f: Function) -> None:
    f.static(SHARED).mine = f.static(SHARED).count  # type: ignore[assignment]


def reads_what_a_lock_guards(f: Function) -> None:
    f.static(SHARED).mine = f.static(SHARED).guarded


def writes_what_a_lock_guards(f: Function) -> None:
    f.static(SHARED).guarded = 1


def reads_rows_that_a_lock_guards(f: Function) -> None:
    f.static(SHARED).mine = f.static(SHARED).rows[0]


def writes_a_guarded_field_after_the_lock(f: Function) -> None:
    shared = f.static(SHARED)
    with f.locked(shared.lock):
        shared.guarded = 1
    shared.guarded = 2


def assigns_a_final_field_of_a_shared_record(f: Function) -> None:
    f.static(SHARED).size = 1


def follows_a_pointer_that_may_be_null(f: Function) -> None:
    f.static(SHARED).link.load(ACQUIRE).value.count.store(1, RELAXED)


def follows_a_pointer_after_the_test(f: Function) -> None:
    link = f.static(SHARED).link.load(ACQUIRE)
    with f.when(link.is_present()):
        link.value.count.store(1, RELAXED)
    link.value.count.store(2, RELAXED)


def uses_a_truth_value_in_python(f: Function) -> None:
    if f.static(SHARED).count.load(RELAXED) == 1:
        f.ret()


def mixes_sizes(f: Function) -> None:
    f.static(SHARED).mine = f.constant(Int32, 1)  # type: ignore[assignment]


def acts_after_a_return(f: Function) -> None:
    f.ret()
    f.static(SHARED).mine = 1


RULES: Mapping[Callable[[Function], None], str] = {
    assigns_an_atomic: "Shared.count is atomic: use `store` and name an ordering",
    reads_an_atomic_plainly: "expected Word, found AtomicPlace",
    reads_what_a_lock_guards: "Shared.guarded is guarded by lock, which is not held here",
    writes_what_a_lock_guards: "Shared.guarded is guarded by lock, which is not held here",
    reads_rows_that_a_lock_guards: "Shared.rows is guarded by a lock that is not held here",
    writes_a_guarded_field_after_the_lock: "Shared.guarded is guarded by lock, which is not held here",
    assigns_a_final_field_of_a_shared_record: "Shared.size is final, and other threads can reach the record here",
    follows_a_pointer_that_may_be_null: "a pointer to Shared may be null here: test it first",
    follows_a_pointer_after_the_test: "a pointer to Shared may be null here: test it first",
    uses_a_truth_value_in_python: "the truth value is only known when the function runs: use `when`",
    mixes_sizes: "expected Word, found Int32",
    acts_after_a_return: "Compute can never run: it follows a return or a jump",
}


@pytest.mark.parametrize("function", RULES, ids=[function.__name__ for function in RULES])
def test_a_function_that_breaks_a_rule_cannot_be_built(function: Callable[[Function], None]) -> None:
    with pytest.raises(NativeTypeError) as caught:
        native(function).built()
    assert str(caught.value) == f"{function.__name__}: {RULES[function]}"


def test_a_path_without_a_result_cannot_be_built() -> None:
    @native
    def returns_nothing(f: Function) -> Word:  # type: ignore[empty-body]
        pass

    with pytest.raises(NativeTypeError, match="a path reaches the end without a return"):
        returns_nothing.built()


def test_a_function_that_needs_a_lock_is_called_with_it_only() -> None:
    @native_holding(SHARED.guard("lock"))
    def count(f: Function) -> None:
        f.static(SHARED).guarded = f.static(SHARED).guarded + 1

    @native
    def calls_without(f: Function) -> None:
        count(f)

    @native
    def calls_with(f: Function) -> None:
        with f.locked(f.static(SHARED).lock):
            count(f)

    with pytest.raises(NativeTypeError, match="calls_without: count must be called while lock of "):
        calls_without.built()
    assert calls_with.built().name == "calls_with"


def test_exclusive_access_needs_no_lock() -> None:
    @native
    def initializes(f: Function) -> Bool:
        shared = f.exclusive_access(f.static(SHARED), "no thread runs")
        shared.guarded = 1
        shared.size = 2
        return f.constant(Bool, True)

    assert initializes.built().name == "initializes"
