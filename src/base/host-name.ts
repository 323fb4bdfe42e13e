/** Whether DNS could know a host of this name, which has no dot at its end: RFC 1123 lengths; the URL parser has refused forbidden characters already. An empty label is no name. */
export function isHostName(name: string): boolean {
  return name.length > 0 && name.length <= 253 && name.split('.').every((label) => label.length > 0 && label.length <= 63);
}
