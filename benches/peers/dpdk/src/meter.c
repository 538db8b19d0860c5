/*
 * DPDK's single-rate three-color meter for `found.rs`: one decision a call, and many in a loop. In C the
 * meter is inlined, so the loops measure what a program in C gets.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <x86intrin.h>

#include <rte_meter.h>

/* `Meter` in `found.rs`: seven words. */
struct tollgate_meter {
    struct rte_meter_srtcm state;
    struct rte_meter_srtcm_profile profile;
};

#define WORD(field, index) \
    _Static_assert(offsetof(struct tollgate_meter, field) == (index) * 8, "another layout")
WORD(state.time, 0);
WORD(state.tc, 1);
WORD(state.te, 2);
WORD(profile.cbs, 3);
WORD(profile.ebs, 4);
WORD(profile.cir_period, 5);
WORD(profile.cir_bytes_per_period, 6);
_Static_assert(sizeof(struct tollgate_meter) == 7 * 8, "another layout");

/* The excess burst is zero, so a packet is green or red. */
static inline bool is_green(struct tollgate_meter *meter, uint64_t now, uint32_t bytes)
{
    return rte_meter_srtcm_color_blind_check(&meter->state, &meter->profile, now, bytes)
        == RTE_COLOR_GREEN;
}

/*
 * Rust's `black_box` for a value in a register. Memory too may have changed: without that, the state of the
 * meter stays in registers for a whole loop, as it cannot between two packets of a program.
 */
#define BLACK_BOX(value) __asm__ volatile("" : "+r"(value) : : "memory")

uint64_t tollgate_meter_ticks(void)
{
    return __rdtsc();
}

bool tollgate_meter_check(struct tollgate_meter *meter, uint64_t now, uint32_t bytes)
{
    return is_green(meter, now, bytes);
}

/* Decides `count` times, first at `now + step`. Returns how many packets were green. */
uint64_t tollgate_meter_check_given(
    struct tollgate_meter *meter, uint64_t now, uint64_t step, uint32_t bytes, uint64_t count)
{
    uint64_t green = 0;
    for (uint64_t index = 0; index < count; index++) {
        now += step;
        BLACK_BOX(now);
        uint32_t is = is_green(meter, now, bytes);
        BLACK_BOX(is);
        green += is;
    }
    return green;
}

/* The same at the time that the processor's counter says. */
uint64_t tollgate_meter_check_own(struct tollgate_meter *meter, uint32_t bytes, uint64_t count)
{
    uint64_t green = 0;
    for (uint64_t index = 0; index < count; index++) {
        uint32_t is = is_green(meter, __rdtsc(), bytes);
        BLACK_BOX(is);
        green += is;
    }
    return green;
}
