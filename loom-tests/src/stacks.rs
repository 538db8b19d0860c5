//! Keeps the stacks of a model's threads from one interleaving to the next.
//!
//! loom runs each thread of a model on a stack of its own, which it maps and unmaps in every
//! interleaving. Mapping them took half of the models' processor time (100 of 206 s), and the tests of
//! one program waited for each other, since a process has one lock for its mappings.
//!
//! The functions here take the place of those of the C library in the programs of this package. A
//! thread of the test runner keeps the stacks that it unmaps, a few at most, and maps them again.

#![allow(unsafe_code, reason = "functions of the C library are replaced")]

use core::cell::Cell;
use core::ffi::{c_int, c_long, c_void};
use core::ptr;

/// How generators map a stack.
const STACK: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;

/// A model has four threads at most. The test runner's thread has a stack for signals.
const KEPT_MAX: usize = 8;

#[derive(Clone, Copy)]
struct Stack {
    /// Null: none.
    address: *mut c_void,
    bytes: usize,
    in_use: bool,
}

const NONE: Stack = Stack { address: ptr::null_mut(), bytes: 0, in_use: false };

thread_local! {
    static STACKS: Cell<[Stack; KEPT_MAX]> = const { Cell::new([NONE; KEPT_MAX]) };
}

/// Applies `change` to the first stack that is `wanted`, and returns its address.
fn change_first(
    wanted: impl Fn(&Stack) -> bool,
    change: impl Fn(&mut Stack),
) -> Option<*mut c_void> {
    STACKS.with(|stacks| {
        let mut all = stacks.get();
        let stack = all.iter_mut().find(|stack| wanted(stack))?;
        change(stack);
        let address = stack.address;
        stacks.set(all);
        Some(address)
    })
}

/// As `mmap(2)`. A stack may have been used before: its content is arbitrary, and its lowest page may be
/// protected.
///
/// # Safety
///
/// As of the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: c_long,
) -> *mut c_void {
    let is_stack = address.is_null() && flags == STACK && file == -1;
    if is_stack {
        let is_kept =
            |stack: &Stack| !stack.address.is_null() && !stack.in_use && stack.bytes == bytes;
        if let Some(kept) = change_first(is_kept, |stack| stack.in_use = true) {
            return kept;
        }
    }
    // SAFETY: the caller's arguments are those of the system call.
    let mapped =
        unsafe { libc::syscall(libc::SYS_mmap, address, bytes, protection, flags, file, offset) }
            as *mut c_void;
    if is_stack && mapped != libc::MAP_FAILED {
        let new = Stack { address: mapped, bytes, in_use: true };
        change_first(|stack| stack.address.is_null(), |stack| *stack = new);
    }
    mapped
}

/// As `munmap(2)`, but a stack that this thread mapped stays mapped.
///
/// # Safety
///
/// As of the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
    let is_it = |stack: &Stack| stack.address == address && stack.bytes == bytes;
    if change_first(is_it, |stack| stack.in_use = false).is_some() {
        return 0;
    }
    // SAFETY: the caller's arguments are those of the system call.
    let code = unsafe { libc::syscall(libc::SYS_munmap, address, bytes) };
    c_int::try_from(code).expect("0 or -1")
}
