/* Deadlines in a hashed wheel: see wheel.h. */
#include "server/wheel.h"

#include "base/assert.h"

static struct gb_deadline *slot_of(struct gb_wheel *wheel, int64_t at_ms)
{
    return &wheel->slots[(uint64_t)(at_ms / GB_WHEEL_TICK_MS) % GB_WHEEL_SLOTS];
}

void gb_wheel_init(struct gb_wheel *wheel, int64_t now_ms)
{
    for (size_t i = 0; i < GB_WHEEL_SLOTS; i++) {
        wheel->slots[i].next = wheel->slots[i].prev = &wheel->slots[i];
    }
    wheel->turned_ms = now_ms - now_ms % GB_WHEEL_TICK_MS;
    wheel->armed = 0;
}

bool gb_wheel_is_armed(const struct gb_deadline *deadline)
{
    return deadline->next != NULL;
}

static void unlink_deadline(struct gb_deadline *deadline)
{
    deadline->prev->next = deadline->next;
    deadline->next->prev = deadline->prev;
    deadline->next = deadline->prev = NULL;
}

static void link_before(struct gb_deadline *head, struct gb_deadline *deadline)
{
    deadline->next = head;
    deadline->prev = head->prev;
    head->prev->next = deadline;
    head->prev = deadline;
}

void gb_wheel_drop(struct gb_wheel *wheel, struct gb_deadline *deadline)
{
    if (gb_wheel_is_armed(deadline)) {
        unlink_deadline(deadline);
        wheel->armed--;
    }
}

void gb_wheel_arm(struct gb_wheel *wheel, struct gb_deadline *deadline, int64_t at_ms)
{
    GB_ASSERT(deadline->fire != NULL);
    gb_wheel_drop(wheel, deadline);
    /* Rounded up to a tick, and never into a slot that has had its turn. */
    int64_t tick_ms = at_ms + GB_WHEEL_TICK_MS - 1;
    tick_ms -= tick_ms % GB_WHEEL_TICK_MS;
    if (tick_ms <= wheel->turned_ms) {
        tick_ms = wheel->turned_ms + GB_WHEEL_TICK_MS;
    }
    deadline->at_ms = tick_ms;
    link_before(slot_of(wheel, tick_ms), deadline);
    wheel->armed++;
}

int64_t gb_wheel_soonest_ms(const struct gb_wheel *wheel, int64_t within_ms)
{
    int64_t at_ms = wheel->turned_ms;
    int64_t limit_ms = wheel->turned_ms + within_ms;
    while (at_ms < limit_ms) {
        at_ms += GB_WHEEL_TICK_MS;
        const struct gb_deadline *slot =
            &wheel->slots[(uint64_t)(at_ms / GB_WHEEL_TICK_MS) % GB_WHEEL_SLOTS];
        if (slot->next != slot) {
            break;
        }
    }
    return at_ms;
}

/* One slot: what is due is moved to a list of its own first, for the functions change the slot. */
static size_t turn_slot(struct gb_wheel *wheel, struct gb_deadline *slot, int64_t now_ms)
{
    struct gb_deadline due = {.next = &due, .prev = &due};
    struct gb_deadline *next = NULL;
    for (struct gb_deadline *at = slot->next; at != slot; at = next) {
        next = at->next;
        if (at->at_ms <= now_ms) {
            unlink_deadline(at);
            link_before(&due, at);
        }
    }
    size_t fired = 0;
    while (due.next != &due) {
        struct gb_deadline *deadline = due.next;
        unlink_deadline(deadline);
        wheel->armed--;
        deadline->fire(deadline);
        fired++;
    }
    return fired;
}

size_t gb_wheel_turn(struct gb_wheel *wheel, int64_t now_ms)
{
    size_t fired = 0;
    int64_t until_ms = now_ms - now_ms % GB_WHEEL_TICK_MS;
    int64_t round_ms = (int64_t)GB_WHEEL_SLOTS * GB_WHEEL_TICK_MS;
    if (until_ms - wheel->turned_ms > round_ms) {
        wheel->turned_ms = until_ms - round_ms; /* each slot once is enough */
    }
    while (wheel->turned_ms < until_ms) {
        wheel->turned_ms += GB_WHEEL_TICK_MS;
        fired += turn_slot(wheel, slot_of(wheel, wheel->turned_ms), until_ms);
    }
    return fired;
}
