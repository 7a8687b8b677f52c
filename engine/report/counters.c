/* Counters and CPU times, which interval lines and results have in common. */
#include "report/report.h"

/* Differences are signed: frames that turn out to belong to another trial are subtracted from
 * rx_frames. */
void report_counters(struct json *j, const struct counters *c)
{
#define COUNTER_PRINT(name) json_signed(j, #name, (int64_t)c->name);
    COUNTERS(COUNTER_PRINT)
#undef COUNTER_PRINT
}

void report_cpu(struct json *j, const struct cpu_times *from, const struct cpu_times *to)
{
    const uint64_t user_ns = to->user_ns - from->user_ns;
    const uint64_t system_ns = to->system_ns - from->system_ns;

    json_unsigned(j, "cpu_ns", user_ns + system_ns);
    json_unsigned(j, "cpu_user_ns", user_ns);
    json_unsigned(j, "cpu_system_ns", system_ns);
}

/* Clock ticks of the rounds of the loop. */
void report_spent(struct json *j, const uint64_t from[2], const uint64_t to[2])
{
    json_unsigned(j, "useful_ticks", to[1] - from[1]);
    json_unsigned(j, "idle_ticks", to[0] - from[0]);
}
