/* What a shared cache may do with a response: see cache_control.h. Sections are RFC 9111's. */
#include "proto/cache_control.h"

#include <errno.h>

#include "base/bits.h"

void gb_cache_control_init(struct gb_cache_control *control)
{
    *control = (struct gb_cache_control){
        .max_age_s = GB_CACHE_CONTROL_ABSENT,
        .s_maxage_s = GB_CACHE_CONTROL_ABSENT,
        .max_stale_s = GB_CACHE_CONTROL_ABSENT,
        .min_fresh_s = GB_CACHE_CONTROL_ABSENT,
        .stale_if_error_s = GB_CACHE_CONTROL_ABSENT,
        .stale_while_revalidate_s = GB_CACHE_CONTROL_ABSENT,
    };
}

/* Delta-seconds, in quotes or not (5.2 wants both accepted). What is no number is 0: stale. */
static int64_t seconds(struct gb_http_text text)
{
    text = gb_http_text_trim(text);
    if (text.len >= 2 && text.at[0] == '"' && text.at[text.len - 1] == '"') {
        text = (struct gb_http_text){text.at + 1, text.len - 2};
    }
    uint64_t value = 0;
    (void)gb_http_text_number(text, &value); /* leaves 0, or saturates */
    return (int64_t)gb_min(value, (uint64_t)GB_CACHE_CONTROL_AGE_MAX);
}

/* The first of several counts (4.2.1). */
static void set_seconds(int64_t *field, struct gb_http_text value)
{
    if (*field == GB_CACHE_CONTROL_ABSENT) {
        *field = seconds(value);
    }
}

static void add_directive(struct gb_cache_control *control, struct gb_http_text name,
                          struct gb_http_text value)
{
    const struct {
        struct gb_http_text name;
        bool *flag;
    } flags[] = {
        {GB_HTTP_TEXT("no-store"), &control->no_store},
        {GB_HTTP_TEXT("no-cache"), &control->no_cache},
        {GB_HTTP_TEXT("no-transform"), &control->no_transform},
        {GB_HTTP_TEXT("only-if-cached"), &control->only_if_cached},
        {GB_HTTP_TEXT("must-revalidate"), &control->must_revalidate},
        {GB_HTTP_TEXT("must-understand"), &control->must_understand},
        {GB_HTTP_TEXT("proxy-revalidate"), &control->proxy_revalidate},
        {GB_HTTP_TEXT("private"), &control->is_private},
        {GB_HTTP_TEXT("public"), &control->is_public},
        {GB_HTTP_TEXT("immutable"), &control->immutable},
    };
    const struct {
        struct gb_http_text name;
        int64_t *field;
    } ages[] = {
        {GB_HTTP_TEXT("max-age"), &control->max_age_s},
        {GB_HTTP_TEXT("s-maxage"), &control->s_maxage_s},
        {GB_HTTP_TEXT("max-stale"), &control->max_stale_s},
        {GB_HTTP_TEXT("min-fresh"), &control->min_fresh_s},
        {GB_HTTP_TEXT("stale-if-error"), &control->stale_if_error_s},
        {GB_HTTP_TEXT("stale-while-revalidate"), &control->stale_while_revalidate_s},
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (gb_http_text_same_name(name, flags[i].name)) {
            *flags[i].flag = true;
        }
    }
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        if (gb_http_text_same_name(name, ages[i].name)) {
            bool any = value.at == NULL && ages[i].field == &control->max_stale_s;
            set_seconds(ages[i].field, any ? GB_HTTP_TEXT("2147483648") : value);
        }
    }
}

void gb_cache_control_add(struct gb_cache_control *control, struct gb_http_text field)
{
    struct gb_http_text element;
    while (gb_http_text_next(&field, &element)) {
        const char *sign = memchr(element.at, '=', element.len);
        struct gb_http_text name = element;
        struct gb_http_text value = {NULL, 0};
        if (sign != NULL) {
            name.len = (size_t)(sign - element.at);
            value = (struct gb_http_text){sign + 1, element.len - name.len - 1};
        }
        add_directive(control, gb_http_text_trim(name), value);
    }
}

int64_t gb_cache_control_age_field(struct gb_http_text field)
{
    uint64_t value = 0;
    if (gb_http_text_number(gb_http_text_trim(field), &value) == -EINVAL) {
        return GB_CACHE_CONTROL_ABSENT;
    }
    return (int64_t)gb_min(value, (uint64_t)GB_CACHE_CONTROL_AGE_MAX);
}

/* Statuses that may be stored without being told so (RFC 9110, 15.1), but for 206. */
static bool is_heuristic(int status)
{
    static const int statuses[] = {200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        if (statuses[i] == status) {
            return true;
        }
    }
    return false;
}

bool gb_cache_control_may_store(const struct gb_cache_response *response,
                                const struct gb_cache_control *request)
{
    const struct gb_cache_control *control = &response->control;
    bool understood = is_heuristic(response->status) || response->status == 302 ||
                      response->status == 303 || response->status == 307;
    if (response->status < 200 || response->status == 206 || response->status == 304 ||
        response->vary_all || control->is_private || request->no_store) {
        return false;
    }
    if (control->must_understand ? !understood : control->no_store) {
        return false;
    }
    if (response->authorized && !control->is_public && !control->must_revalidate &&
        control->s_maxage_s == GB_CACHE_CONTROL_ABSENT) {
        return false; /* 3.5 */
    }
    return control->is_public || control->max_age_s != GB_CACHE_CONTROL_ABSENT ||
           control->s_maxage_s != GB_CACHE_CONTROL_ABSENT ||
           response->expires_s != GB_CACHE_CONTROL_ABSENT || is_heuristic(response->status);
}

static int64_t date_of(const struct gb_cache_response *response)
{
    return response->date_s != GB_CACHE_CONTROL_ABSENT ? response->date_s : response->received_s;
}

static int64_t not_negative(int64_t value)
{
    return value > 0 ? value : 0;
}

int64_t gb_cache_control_lifetime(const struct gb_cache_response *response)
{
    const struct gb_cache_control *control = &response->control;
    if (control->s_maxage_s != GB_CACHE_CONTROL_ABSENT) {
        return control->s_maxage_s;
    }
    if (control->max_age_s != GB_CACHE_CONTROL_ABSENT) {
        return control->max_age_s;
    }
    if (response->expires_s != GB_CACHE_CONTROL_ABSENT) {
        return not_negative(response->expires_s - date_of(response));
    }
    if (response->modified_s == GB_CACHE_CONTROL_ABSENT ||
        !(control->is_public || is_heuristic(response->status))) {
        return 0;
    }
    int64_t tenth = not_negative(date_of(response) - response->modified_s) / 10;
    return (int64_t)gb_min((uint64_t)tenth, (uint64_t)GB_CACHE_CONTROL_HEURISTIC_MAX);
}

int64_t gb_cache_control_age(const struct gb_cache_response *response, int64_t now_s)
{
    int64_t apparent = not_negative(response->received_s - date_of(response));
    int64_t delay = not_negative(response->received_s - response->requested_s);
    int64_t corrected = not_negative(response->age_s) + delay;
    int64_t initial = apparent > corrected ? apparent : corrected;
    return initial + not_negative(now_s - response->received_s);
}

/* Nothing stale, not even if the origin is gone (5.2.2.2, 5.2.2.8; so does s-maxage, 5.2.2.10). */
static bool forbids_stale(const struct gb_cache_control *control)
{
    return control->must_revalidate || control->proxy_revalidate || control->no_cache ||
           control->s_maxage_s != GB_CACHE_CONTROL_ABSENT;
}

enum gb_cache_use gb_cache_control_use(const struct gb_cache_response *response,
                                       const struct gb_cache_control *request, int64_t now_s)
{
    const struct gb_cache_control *control = &response->control;
    const enum gb_cache_use ask = request->only_if_cached ? GB_CACHE_IMPOSSIBLE : GB_CACHE_VALIDATE;
    int64_t age = gb_cache_control_age(response, now_s);
    int64_t stale = age - gb_cache_control_lifetime(response);
    if (control->no_cache || request->no_cache ||
        (request->max_age_s != GB_CACHE_CONTROL_ABSENT && age > request->max_age_s) ||
        (request->min_fresh_s != GB_CACHE_CONTROL_ABSENT && -stale < request->min_fresh_s)) {
        return ask;
    }
    if (stale < 0) {
        return GB_CACHE_FRESH;
    }
    /* s-maxage forbids what is stale by itself, but RFC 5861 lets the origin grant a while of it.
     * */
    bool strict = control->must_revalidate || control->proxy_revalidate;
    if (!strict && control->stale_while_revalidate_s > stale) {
        return request->only_if_cached ? GB_CACHE_FRESH : GB_CACHE_BEHIND;
    }
    if (!forbids_stale(control) && request->max_stale_s >= stale) {
        return GB_CACHE_FRESH;
    }
    return ask;
}

bool gb_cache_control_use_on_error(const struct gb_cache_response *response,
                                   const struct gb_cache_control *request, int64_t now_s)
{
    const struct gb_cache_control *control = &response->control;
    int64_t stale = gb_cache_control_age(response, now_s) - gb_cache_control_lifetime(response);
    if (control->must_revalidate || control->proxy_revalidate || control->no_cache ||
        request->no_cache) {
        return false;
    }
    if (stale < 0 || control->stale_if_error_s > stale) {
        return true;
    }
    return control->s_maxage_s == GB_CACHE_CONTROL_ABSENT && request->stale_if_error_s > stale;
}
