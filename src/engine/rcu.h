/*
 * Read-copy-update for the engine: liburcu's "bulletproof" flavour under our names.
 *
 * Threads need no registration (the first read-side section of a thread registers it, its exit
 * unregisters it), which is what a library inside someone else's process can ask for. Sections
 * nest, never block, and must not call gb_rcu_synchronize.
 *
 * The read side is liburcu's inlines, which its authors offer to any program: calling its functions
 * instead cost a third of all gets per second, measured. The checkers get the functions, because
 * the inlines show them only half of liburcu's bookkeeping (which in 0.13 is also misaligned).
 * ThreadSanitizer sees neither, so the one edge that everything rests on (the end of a section
 * happens before the return of a later gb_rcu_synchronize) is told to it here.
 */
#ifndef GB_ENGINE_RCU_H
#define GB_ENGINE_RCU_H

#include <stdint.h>

#include <urcu/urcu-bp.h>

#if defined(__SANITIZE_THREAD__)
#define GB_TSAN 1
#elif defined(__SANITIZE_ADDRESS__) || defined(__clang_analyzer__)
#define GB_RCU_CALLS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GB_TSAN 1
#elif __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define GB_RCU_CALLS 1
#endif
#endif
#ifndef GB_TSAN
#define GB_TSAN 0
#endif

#if GB_TSAN
#include <sanitizer/tsan_interface.h>
#define GB_RCU_CALLS 1
/* An address that is the same for everybody. */
#define GB_RCU_EDGE  ((void *)(uintptr_t)urcu_bp_synchronize_rcu)
#endif
#ifndef GB_RCU_CALLS
#define GB_RCU_CALLS 0
#endif
#if !GB_RCU_CALLS
#include <urcu/static/urcu-bp.h>
#endif

static inline void gb_rcu_read_lock(void)
{
#if GB_RCU_CALLS
    urcu_bp_read_lock();
#else
    _urcu_bp_read_lock();
#endif
}

static inline void gb_rcu_read_unlock(void)
{
#if GB_TSAN
    __tsan_release(GB_RCU_EDGE);
#endif
#if GB_RCU_CALLS
    urcu_bp_read_unlock();
#else
    _urcu_bp_read_unlock();
#endif
}

/* Returns once every section that was open at the call has ended. Blocks: milliseconds. */
static inline void gb_rcu_synchronize(void)
{
    urcu_bp_synchronize_rcu();
#if GB_TSAN
    __tsan_acquire(GB_RCU_EDGE);
#endif
}

#endif
