/* A moment's rest for a thread that spins on what another is about to do. */
#ifndef GB_BASE_PAUSE_H
#define GB_BASE_PAUSE_H

static inline void gb_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
