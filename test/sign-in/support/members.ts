/** The built service with the workspace `/w/acme`, an owner and a member. */
import { Service, type ServiceOptions } from "../../support/service.ts";

/** @returns the service, and the path of the workspace's members. */
export async function startWithMembers(options: ServiceOptions): Promise<{ service: Service; members: string }> {
  const service = await Service.make(options);
  const { home } = await service.api.provision({ slug: "acme" });
  const members = `${home}/members`;
  await service.api.post(members, { email: "owner@acme.example", role: "owner" });
  await service.api.post(members, { email: "member@acme.example", role: "member" });
  return { service, members };
}
