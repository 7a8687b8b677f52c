/* The parts of the `result` event. */
#ifndef SM_REPORT_H
#define SM_REPORT_H

#include "report/json.h"
#include "trial.h"

void report_counters(struct json *j, const struct counters *c);
void report_cpu(struct json *j, const struct cpu_times *from, const struct cpu_times *to);
/* The rates and the shape, as part of `config`. */
void report_schedule(struct json *j, const struct trial *trial);
void report_result(struct json *j, const struct trial *trial);
#endif
