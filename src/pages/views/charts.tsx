export { Sparkline } from "../kit/charts.tsx";
