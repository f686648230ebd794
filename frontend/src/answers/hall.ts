/** The address of the hall with a finding lit, or with all; undefined where there is no hall. */
export type Hall = (finding: number | undefined) => string | undefined;
