/** The sidebar's icons: 16 units square, drawn with one stroke. */
const PATHS = {
  home: "M2 7.5 8 2l6 5.5M3.5 6.5V14h9V6.5M6.5 14v-4h3v4",
  queue: "M2 4h12M2 8h12M2 12h8",
  live: "M1 8h3l2-5 4 10 2-5h3",
  stop: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM3.5 3.5l9 9",
  rule: "M2 4h5M2 12h5M10 2.5 14 8l-4 5.5M7 4v8",
  people: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2.5 14c.5-3 2.7-4 5.5-4s5 1 5.5 4",
  account: "M3 14V3h6v11M9 7h4v7M1.5 14h13M5.5 6h1M5.5 9h1",
  key: "M5.5 13.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM7.7 8.3 14 2M11.5 4.5l2 2",
  program: "M1.5 3h13v10h-13ZM4.5 6l2 2-2 2M8.5 10h3",
  plug: "M5 1.5v4M11 1.5v4M3.5 5.5h9v2a4.5 4.5 0 0 1-9 0v-2ZM8 12v2.5",
  chart: "M2 2v12h12M5 11V8M8 11V4M11 11V6.5",
  members: "M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM1.5 13.5c.4-2.6 2-3.5 4.5-3.5s4.1.9 4.5 3.5M12.5 5v5M10 7.5h5",
  bell: "M8 2a4 4 0 0 0-4 4c0 4-1.5 5-1.5 5h11S12 10 12 6a4 4 0 0 0-4-4ZM6.5 13.5a1.6 1.6 0 0 0 3 0",
  clock: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM8 4v4l3 2",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        stroke-width="1.4"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}
