/** Whether DNS could know a host of this name: labels of 1 to 63 characters, 253 in all, without the dot at its end. */
export function isHostName(name: string): boolean {
  return name.length > 0 && name.length <= 253 && name.split('.').every((label) => label.length > 0 && label.length <= 63);
}
