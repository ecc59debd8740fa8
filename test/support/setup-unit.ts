import { watchLog } from "./logged.ts";
import { configureProperties } from "./properties.ts";

configureProperties();
watchLog();
